#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace longtail {

inline std::uint64_t hash_bytes(std::string_view bytes) {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
    std::uint64_t hash = bytes.size() * kOdd;
    const char* at = bytes.data();
    std::size_t left = bytes.size();
    const auto mix = [&hash](std::uint64_t block) {
        hash = (hash ^ block) * kOdd;
        hash ^= hash >> 29;
    };
    for (; left >= 8; left -= 8, at += 8) {
        std::uint64_t block;
        std::memcpy(&block, at, 8);
        mix(block);
    }
    std::uint64_t rest = 0;
    std::memcpy(&rest, at, left);
    mix(rest);
    return hash * kOdd;
}

// Numbers distinct byte strings 0, 1, 2, ... Open addressing; a slot keeps half of the hash, so that nearly every miss is
// seen without looking at the bytes. The strings themselves lie one after the other in memory that the caller names at
// each call: a saved vocabulary stays where it is mapped.
class WordTable {
public:
    struct Words {
        const char* bytes;
        const std::int64_t* ends;  // of word i; it begins at ends[i - 1]

        std::string_view operator[](std::int32_t id) const {
            const std::int64_t begin = id == 0 ? 0 : ends[id - 1];
            return {bytes + begin, static_cast<std::size_t>(ends[id] - begin)};
        }
    };

    explicit WordTable(std::size_t n_expected = 0) { slots_.resize(std::bit_ceil(n_expected * 2 + 16)); }

    // The id of a word, or -1.
    std::int32_t find(const Words& words, std::string_view word, std::uint64_t hash) const {
        return slots_[probe(words, word, hash)].id;
    }

    // The id of a word, which is `new_id` if it was not there; the caller then appends it to `words`.
    std::int32_t find_or_add(const Words& words, std::string_view word, std::uint64_t hash, std::int32_t new_id) {
        Slot& slot = slots_[probe(words, word, hash)];
        if (slot.id >= 0) return slot.id;
        slot = {static_cast<std::uint32_t>(hash >> 32), new_id};
        if (++n_used_ * 2 > slots_.size()) grow();
        return new_id;
    }

private:
    struct Slot {
        std::uint32_t hash = 0;
        std::int32_t id = -1;
    };

    // Slots are chosen by the high half too: it is all that is left of the hash when the table grows.
    std::size_t probe(const Words& words, std::string_view word, std::uint64_t hash) const {
        const auto kept = static_cast<std::uint32_t>(hash >> 32);
        std::size_t at = kept & (slots_.size() - 1);
        while (slots_[at].id >= 0 && (slots_[at].hash != kept || words[slots_[at].id] != word))
            at = (at + 1) & (slots_.size() - 1);
        return at;
    }

    void grow() {
        std::vector<Slot> old(slots_.size() * 2);
        old.swap(slots_);
        for (const Slot& slot : old) {
            if (slot.id < 0) continue;
            std::size_t at = slot.hash & (slots_.size() - 1);
            while (slots_[at].id >= 0) at = (at + 1) & (slots_.size() - 1);
            slots_[at] = slot;
        }
    }

    std::vector<Slot> slots_;
    std::size_t n_used_ = 0;
};

}  // namespace longtail
