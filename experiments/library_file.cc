#include "experiments/library_file.h"

#include <elf.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <system_error>
#include <vector>

#include "experiments/text.h"

namespace schedtwin {
namespace {

absl::Status Invalid(const std::string& message) { return absl::InvalidArgumentError(message); }

// `count` records of type T at `offset`; nullopt where they are not all inside.
template <class T>
std::optional<std::vector<T>> Records(std::string_view bytes, std::uint64_t offset,
                                      std::uint64_t count) {
  if (offset > bytes.size() || count > (bytes.size() - offset) / sizeof(T)) return std::nullopt;
  std::vector<T> out(count);
  if (count > 0) std::memcpy(out.data(), bytes.data() + offset, count * sizeof(T));
  return out;
}

std::optional<std::string_view> Part(std::string_view bytes, std::uint64_t offset,
                                     std::uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return std::nullopt;
  return bytes.substr(offset, size);
}

bool Named(std::string_view names, std::uint64_t at, std::string_view symbol) {
  return at < names.size() && names.substr(at, symbol.size()) == symbol &&
         at + symbol.size() < names.size() && names[at + symbol.size()] == '\0';
}

// The address of the exported object; nullopt: there is none.
std::optional<std::uint64_t> AddressOf(std::string_view bytes,
                                       const std::vector<Elf64_Shdr>& sections,
                                       std::string_view symbol) {
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_DYNSYM || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& strings = sections[section.sh_link];
    const auto names = Part(bytes, strings.sh_offset, strings.sh_size);
    const auto symbols =
        Records<Elf64_Sym>(bytes, section.sh_offset, section.sh_size / sizeof(Elf64_Sym));
    if (!names.has_value() || !symbols.has_value()) continue;
    for (const Elf64_Sym& candidate : *symbols) {
      if (candidate.st_shndx != SHN_UNDEF && ELF64_ST_TYPE(candidate.st_info) == STT_OBJECT &&
          Named(*names, candidate.st_name, symbol)) {
        return candidate.st_value;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<std::string> ReadLibraryFile(const std::string& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return absl::NotFoundError("does not exist");
  }
  if (!error && !std::filesystem::is_regular_file(status)) return Invalid("is no regular file");
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    return Invalid(Cat("cannot be read: ", static_cast<const char*>(std::strerror(errno))));
  }
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

absl::StatusOr<std::string_view> ExportedObject(std::string_view bytes, std::string_view symbol) {
  const auto header = Records<Elf64_Ehdr>(bytes, 0, 1);
  if (!header.has_value() || std::memcmp(bytes.data(), ELFMAG, SELFMAG) != 0) {
    return Invalid("is no shared library (no ELF file)");
  }
  const Elf64_Ehdr& elf = header->front();
  if (elf.e_ident[EI_CLASS] != ELFCLASS64 || elf.e_ident[EI_DATA] != ELFDATA2LSB ||
      elf.e_type != ET_DYN || elf.e_phentsize != sizeof(Elf64_Phdr) ||
      elf.e_shentsize != sizeof(Elf64_Shdr)) {
    return Invalid("is no 64-bit shared library");
  }
  const auto segments = Records<Elf64_Phdr>(bytes, elf.e_phoff, elf.e_phnum);
  const auto sections = Records<Elf64_Shdr>(bytes, elf.e_shoff, elf.e_shnum);
  if (!segments.has_value() || !sections.has_value()) {
    return Invalid("is not a whole shared library; it was cut off");
  }
  const std::optional<std::uint64_t> address = AddressOf(bytes, *sections, symbol);
  if (!address.has_value()) return absl::NotFoundError(Cat("exports no ", symbol));
  for (const Elf64_Phdr& segment : *segments) {
    if (segment.p_type != PT_LOAD || *address < segment.p_vaddr ||
        *address - segment.p_vaddr >= segment.p_filesz) {
      continue;
    }
    const auto part = Part(bytes, segment.p_offset, segment.p_filesz);
    if (part.has_value()) return part->substr(*address - segment.p_vaddr);
  }
  return Invalid(Cat("holds no bytes for its ", symbol));
}

}  // namespace schedtwin
