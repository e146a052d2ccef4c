#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

namespace longtail {

// An array of plain numbers that grows through realloc. Large blocks are moved by the operating system, not copied, and
// pages nobody wrote yet cost nothing, so growing never needs the memory twice, as std::vector does.
// New elements are uninitialised. Offers what to_numpy needs, so that the array becomes NumPy's without a copy.
template <class T>
class GrowingArray {
    static_assert(std::is_trivially_copyable_v<T>);

public:
    using value_type = T;

    GrowingArray() = default;
    GrowingArray(GrowingArray&& other) noexcept
        : data_(std::exchange(other.data_, nullptr)),
          size_(std::exchange(other.size_, 0)),
          capacity_(std::exchange(other.capacity_, 0)) {}
    GrowingArray& operator=(GrowingArray&& other) noexcept {
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
        return *this;
    }
    ~GrowingArray() { std::free(data_); }

    T* data() { return data_; }
    std::size_t size() const { return size_; }
    std::size_t capacity() const { return capacity_; }

    void reserve(std::size_t capacity) {
        if (capacity > capacity_) reallocate(capacity);
    }
    void resize(std::size_t size) {
        if (size > capacity_) reallocate(std::max(size, capacity_ + capacity_ / 2));
        size_ = size;
    }
    void shrink_to_fit() {
        if (size_ < capacity_) reallocate(size_);
    }

    // The same numbers in a narrower type, in the same memory. They must fit.
    template <class Narrow>
    GrowingArray<Narrow> narrowed() && {
        static_assert(sizeof(Narrow) <= sizeof(T));
        auto* const bytes = reinterpret_cast<unsigned char*>(data_);
        for (std::size_t i = 0; i < size_; ++i) {
            T wide;
            std::memcpy(&wide, bytes + i * sizeof(T), sizeof wide);
            const auto narrow = static_cast<Narrow>(wide);
            std::memcpy(bytes + i * sizeof(Narrow), &narrow, sizeof narrow);
        }
        GrowingArray<Narrow> result;
        result.data_ = reinterpret_cast<Narrow*>(std::exchange(data_, nullptr));
        result.size_ = std::exchange(size_, 0);
        result.capacity_ = std::exchange(capacity_, 0) * sizeof(T) / sizeof(Narrow);
        result.shrink_to_fit();
        return result;
    }

private:
    template <class Other>
    friend class GrowingArray;

    void reallocate(std::size_t capacity) {
        const std::size_t bytes = std::max<std::size_t>(capacity, 1) * sizeof(T);
        if (capacity > static_cast<std::size_t>(-1) / sizeof(T)) throw std::bad_alloc();
        void* moved = std::realloc(data_, bytes);
        if (moved == nullptr) throw std::bad_alloc();
        data_ = static_cast<T*>(moved);
        capacity_ = capacity;
    }

    T* data_ = nullptr;
    std::size_t size_ = 0;
    std::size_t capacity_ = 0;
};

}  // namespace longtail
