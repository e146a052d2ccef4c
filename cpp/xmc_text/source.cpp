#include "xmc_text/source.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "xmc_text/numbers.hpp"

namespace longtail {

std::int64_t MemorySource::read(int, std::int64_t offset, char* into, std::int64_t n_bytes) {
    n_bytes = std::clamp<std::int64_t>(size() - offset, 0, n_bytes);
    if (n_bytes > 0) std::memcpy(into, bytes_.data() + offset, n_bytes);
    return n_bytes;
}

FileSource::FileSource(const std::filesystem::path& path, int n_workers) : files_(std::max(n_workers, 1)) {
    for (auto& file : files_) {
        file.rdbuf()->pubsetbuf(nullptr, 0);  // pieces are large: read straight into their buffers
        file.open(path, std::ios::binary);
        if (!file) throw std::runtime_error("cannot open " + path.string());
    }
    files_[0].seekg(0, std::ios::end);
    size_ = files_[0].tellg();
    if (size_ < 0) throw std::runtime_error("cannot tell the size of " + path.string());
}

std::int64_t FileSource::read(int worker, std::int64_t offset, char* into, std::int64_t n_bytes) {
    auto& file = files_[worker];
    file.clear();
    file.seekg(offset);
    file.read(into, n_bytes);
    if (file.bad()) throw std::runtime_error("reading failed in the middle of the file");
    return file.gcount();
}

PieceLines read_piece(Source& source, const Pieces& pieces, std::int64_t piece, int worker, std::vector<char>& buffer) {
    // The byte before the piece tells whether its first byte begins a line.
    const std::int64_t piece_begin = pieces.begin + piece * pieces.piece_bytes - (piece > 0 ? 1 : 0);
    const std::int64_t piece_end = std::min(pieces.begin + (piece + 1) * pieces.piece_bytes, source.size());
    std::int64_t n_wanted = piece_end - piece_begin;
    std::int64_t n_read = 0;
    std::int64_t n_searched = n_wanted - 1;  // the last line ends at the first '\n' from here on
    for (std::int64_t overread = std::int64_t{1} << 13;; overread *= 2) {
        n_wanted = std::min(n_wanted + overread, source.size() - piece_begin);
        if (static_cast<std::int64_t>(buffer.size()) < n_wanted + 1 + kTextPadding)
            buffer.resize(n_wanted + 1 + kTextPadding);
        const std::int64_t n_got = source.read(worker, piece_begin + n_read, buffer.data() + n_read, n_wanted - n_read);
        n_read += n_got;
        const bool is_end = n_read < n_wanted || piece_begin + n_read == source.size();
        char* const text = buffer.data();
        char* lines_begin = text;
        if (piece > 0) {
            const std::int64_t n_own = std::min(n_read, piece_end - piece_begin - 1);
            lines_begin = static_cast<char*>(std::memchr(text, '\n', std::max<std::int64_t>(n_own, 0)));
            if (lines_begin == nullptr) return {};
            ++lines_begin;
        }
        const void* newline = n_read > n_searched ? std::memchr(text + n_searched, '\n', n_read - n_searched) : nullptr;
        char* lines_end = text + n_read;
        if (newline != nullptr) {
            lines_end = text + (static_cast<const char*>(newline) - text) + 1;
        } else if (is_end) {
            if (lines_end > lines_begin && lines_end[-1] != '\n') *lines_end++ = '\n';
        } else if (n_read - (piece_end - piece_begin) > pieces.max_line_bytes) {
            while (lines_end > lines_begin && lines_end[-1] != '\n') --lines_end;
            return {{lines_begin, lines_end}, true};
        } else {
            n_searched = n_read;
            continue;
        }
        return {{lines_begin, lines_end}, false};
    }
}

}  // namespace longtail
