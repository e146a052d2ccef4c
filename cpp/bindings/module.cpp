#include <nanobind/nanobind.h>

// One register function per folder of the core, each in its bind_<folder>.cpp.
namespace longtail::bindings {
void bind_base(nanobind::module_& m);
void bind_text(nanobind::module_& m);
void bind_linear(nanobind::module_& m);
void bind_metrics(nanobind::module_& m);
void bind_text_features(nanobind::module_& m);
void bind_boost(nanobind::module_& m);
void bind_tree(nanobind::module_& m);
}  // namespace longtail::bindings

#define LONGTAIL_NB_MODULE(name, variable) NB_MODULE(name, variable)

LONGTAIL_NB_MODULE(LONGTAIL_MODULE, m) {
#ifdef NDEBUG
    // A model that something still holds when the interpreter ends is not lost; debug builds tell of it all the same.
    nanobind::set_leak_warnings(false);
#endif
    longtail::bindings::bind_base(m);
    longtail::bindings::bind_text(m);
    longtail::bindings::bind_linear(m);
    longtail::bindings::bind_metrics(m);
    longtail::bindings::bind_text_features(m);
    longtail::bindings::bind_boost(m);
    longtail::bindings::bind_tree(m);
}
