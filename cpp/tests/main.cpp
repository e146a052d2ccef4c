#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

// The thread sanitizer runs only the files of LONGTAIL_THREADED_TESTS, listed in CMakeLists.txt. Abort when a test of
// another file starts a thread, so that the list stays complete: this function takes the place of the C library's.
#if defined(LONGTAIL_THREADED_TESTS) && defined(__GLIBC__)
#include <dlfcn.h>
#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <string>

extern "C" __attribute__((visibility("default"))) int pthread_create(pthread_t* thread,
                                                                     const pthread_attr_t* attributes,
                                                                     void* (*start)(void*), void* argument) noexcept {
    using Function = int(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
    static Function* const next = reinterpret_cast<Function*>(dlsym(RTLD_NEXT, "pthread_create"));
    if (const auto* test = doctest::getContextOptions()->currentTest) {
        const std::string path = test->m_file.c_str();
        const std::size_t begin = path.find_last_of('/') + 1;
        const std::string name = " " + path.substr(begin, path.find_last_of('.') - begin) + " ";
        if (std::string(" " LONGTAIL_THREADED_TESTS " ").find(name) == std::string::npos) {
            std::fprintf(stderr, "%s starts a thread: add it to threaded_tests in CMakeLists.txt\n", path.c_str());
            std::abort();
        }
    }
    return next(thread, attributes, start, argument);
}
#endif
