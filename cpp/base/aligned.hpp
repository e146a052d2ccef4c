#pragma once

#include <cstddef>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace longtail {

// Allocates on cache-line borders, so that sixteen float lanes are one line.
template <class T>
struct CacheLineAllocator {
    using value_type = T;
    static constexpr std::align_val_t kAlignment{64};

    CacheLineAllocator() = default;
    template <class U>
    CacheLineAllocator(const CacheLineAllocator<U>&) {}

    T* allocate(std::size_t n) { return static_cast<T*>(::operator new(n * sizeof(T), kAlignment)); }
    void deallocate(T* pointer, std::size_t) { ::operator delete(pointer, kAlignment); }
    template <class U>
    bool operator==(const CacheLineAllocator<U>&) const {
        return true;
    }
};

// The same, but resizing a vector leaves its new numbers as they are: for large arrays that are written right away.
template <class T>
struct RawAllocator : CacheLineAllocator<T> {
    template <class U>
    struct rebind {
        using other = RawAllocator<U>;
    };
    RawAllocator() = default;
    template <class U>
    RawAllocator(const RawAllocator<U>&) {}
    template <class U, class... Arguments>
    void construct(U* place, Arguments&&... arguments) {
        if constexpr (sizeof...(Arguments) == 0)
            ::new (static_cast<void*>(place)) U;
        else
            ::new (static_cast<void*>(place)) U(static_cast<Arguments&&>(arguments)...);
    }
};

// The same, in huge pages where Linux has them and there is enough to fill some: for scratch memory that is written and
// dropped again and again, whose page faults took FastXML a tenth of its time.
template <class T>
struct LargeAllocator : RawAllocator<T> {
    static constexpr std::size_t kHugePage = std::size_t{2} << 20;

    template <class U>
    struct rebind {
        using other = LargeAllocator<U>;
    };
    LargeAllocator() = default;
    template <class U>
    LargeAllocator(const LargeAllocator<U>&) {}

    static bool is_large(std::size_t n) { return n * sizeof(T) >= 2 * kHugePage; }
    static std::align_val_t alignment(std::size_t n) {
        return is_large(n) ? std::align_val_t{kHugePage} : CacheLineAllocator<T>::kAlignment;
    }
    T* allocate(std::size_t n) {
        void* memory = ::operator new(n * sizeof(T), alignment(n));
#if defined(__linux__)
        if (is_large(n)) madvise(memory, n * sizeof(T), MADV_HUGEPAGE);  // where it is refused, pages are small
#endif
        return static_cast<T*>(memory);
    }
    void deallocate(T* pointer, std::size_t n) { ::operator delete(pointer, alignment(n)); }
};

template <class T>
using AlignedVector = std::vector<T, CacheLineAllocator<T>>;
template <class T>
using RawVector = std::vector<T, RawAllocator<T>>;
template <class T>
using LargeVector = std::vector<T, LargeAllocator<T>>;

}  // namespace longtail
