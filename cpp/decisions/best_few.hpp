#pragma once

#include <algorithm>
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

    explicit BestFew(std::int64_t top_k) : top_k_(static_cast<std::size_t>(top_k)) { entries_.reserve(top_k_ + 1); }

    void clear() { entries_.clear(); }
    void add(double gain, std::int32_t place) {
        if (entries_.size() == top_k_) {
            if (!(gain > entries_.back().gain)) return;
            entries_.pop_back();
        }
        const auto at = std::upper_bound(entries_.begin(), entries_.end(), gain,
                                         [](double value, const Entry& entry) { return value > entry.gain; });
        entries_.insert(at, {gain, place});
    }
    const std::vector<Entry>& found() const { return entries_; }

private:
    std::size_t top_k_;
    std::vector<Entry> entries_;
};

}  // namespace longtail
