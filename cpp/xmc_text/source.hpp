#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <vector>

namespace longtail {

// Bytes that several workers read at once, each at its own place.
class Source {
public:
    virtual ~Source() = default;
    virtual std::int64_t size() const = 0;
    // Copy [offset, offset + n_bytes) to `into`; returns how much there was.
    virtual std::int64_t read(int worker, std::int64_t offset, char* into, std::int64_t n_bytes) = 0;
};

class MemorySource : public Source {
public:
    explicit MemorySource(std::span<const char> bytes) : bytes_(bytes) {}
    std::int64_t size() const override { return static_cast<std::int64_t>(bytes_.size()); }
    std::int64_t read(int worker, std::int64_t offset, char* into, std::int64_t n_bytes) override;

private:
    std::span<const char> bytes_;
};

// A file read in pieces, not mapped: a mapping would count as memory in use, and a file that shrinks would kill us.
class FileSource : public Source {
public:
    FileSource(const std::filesystem::path& path, int n_workers);
    std::int64_t size() const override { return size_; }
    std::int64_t read(int worker, std::int64_t offset, char* into, std::int64_t n_bytes) override;

private:
    std::vector<std::ifstream> files_;
    std::int64_t size_;
};

// A source is cut, from `begin` on, into pieces of equal length; a piece owns the lines that begin in it.
struct Pieces {
    std::int64_t begin;
    std::int64_t piece_bytes;
    std::int64_t max_line_bytes;

    std::int64_t count(const Source& source) const { return (source.size() - begin + piece_bytes - 1) / piece_bytes; }
};

struct PieceLines {
    std::span<const char> lines;  // whole lines, each ended by '\n', with kTextPadding readable bytes behind
    bool is_cut = false;          // the line after them is longer than max_line_bytes
};

// Read the lines a piece owns into `buffer`. A last line without '\n' gets one.
PieceLines read_piece(Source& source, const Pieces& pieces, std::int64_t piece, int worker, std::vector<char>& buffer);

}  // namespace longtail
