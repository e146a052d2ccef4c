#include <nanobind/nanobind.h>

// One register function per folder of the core, each in its bind_<folder>.cpp.
namespace longtail::bindings {
void bind_base(nanobind::module_& m);
void bind_xmc_text(nanobind::module_& m);
void bind_linear(nanobind::module_& m);
void bind_metrics(nanobind::module_& m);
void bind_decisions(nanobind::module_& m);
void bind_vectorizer(nanobind::module_& m);
void bind_gbdt(nanobind::module_& m);
void bind_fastxml(nanobind::module_& m);
void bind_label_tree(nanobind::module_& m);
void bind_pd_sparse(nanobind::module_& m);
void bind_random_tree(nanobind::module_& m);
}  // namespace longtail::bindings

#define LONGTAIL_NB_MODULE(name, variable) NB_MODULE(name, variable)

LONGTAIL_NB_MODULE(LONGTAIL_MODULE, m) {
#ifdef NDEBUG
    // A model that something still holds when the interpreter ends is not lost; debug builds still report it.
    nanobind::set_leak_warnings(false);
#endif
    longtail::bindings::bind_base(m);
    longtail::bindings::bind_xmc_text(m);
    longtail::bindings::bind_linear(m);
    longtail::bindings::bind_metrics(m);
    longtail::bindings::bind_decisions(m);
    longtail::bindings::bind_vectorizer(m);
    longtail::bindings::bind_gbdt(m);
    longtail::bindings::bind_fastxml(m);
    longtail::bindings::bind_label_tree(m);
    longtail::bindings::bind_pd_sparse(m);
    longtail::bindings::bind_random_tree(m);
}
