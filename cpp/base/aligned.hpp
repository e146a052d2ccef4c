#pragma once

#include <cstddef>
#include <new>
#include <vector>

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

template <class T>
using AlignedVector = std::vector<T, CacheLineAllocator<T>>;
template <class T>
using RawVector = std::vector<T, RawAllocator<T>>;

}  // namespace longtail
