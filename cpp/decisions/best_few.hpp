#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace longtail {

// The top_k greatest of the gains added so far, greatest first; of equal ones the first added. Made for a few out of
// about a hundred: most gains fail the one comparison with the least that is kept.
class BestFew {
public:
    struct Entry {
        double gain;
        std::int32_t place;
    };

    explicit BestFew(std::int64_t top_k) : top_k_(static_cast<std::size_t>(top_k)) { entries_.reserve(top_k_); }

    void clear() { entries_.clear(); }
    void add(double gain, std::int32_t place) {
        if (entries_.size() == top_k_) {
            if (!(gain > entries_.back().gain)) return;
        } else {
            entries_.push_back({});
        }
        std::size_t at = entries_.size() - 1;
        for (; at > 0 && entries_[at - 1].gain < gain; --at) entries_[at] = entries_[at - 1];
        entries_[at] = {gain, place};
    }
    const std::vector<Entry>& found() const { return entries_; }

private:
    std::size_t top_k_;
    std::vector<Entry> entries_;
};

}  // namespace longtail
