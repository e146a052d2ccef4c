#pragma once

#include "base/lanes.hpp"

namespace longtail::linear {

// Per-lane sums over rows or features: float32 within a part, float64 over the parts.
struct LaneSum {
    double total[kLanes] = {};
    Lanes part = {};
    int n_added = 0;
    void add(const Lanes& term) {
        part += term;
        if (++n_added == 32) flush();
    }
    double whole() {  // the sum over all lanes
        flush();
        double sum = 0.0;
        for (const double lane : total) sum += lane;
        return sum;
    }
    void flush() {
        float parts[kLanes];
        store(part, parts);
        for (int lane = 0; lane < kLanes; ++lane) total[lane] += parts[lane];
        part = Lanes{};
        n_added = 0;
    }
};

}  // namespace longtail::linear
