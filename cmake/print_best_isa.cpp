// Run while CMake configures: prints the instruction set of the machine that builds.
#include <cstdio>

#include "base/best_isa.hpp"

int main() { std::fputs(longtail::best_isa(), stdout); }
