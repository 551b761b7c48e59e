// LibraryFile: the bytes of a shared library, looked into without loading it, so that nothing of it
// runs before it is known to fit. Called by policy_library.cc; pure functions of bytes, any thread.
#ifndef SCHEDTWIN_EXPERIMENTS_LIBRARY_FILE_H_
#define SCHEDTWIN_EXPERIMENTS_LIBRARY_FILE_H_

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace schedtwin {

/// A whole regular file. NotFound when there is none of that name.
absl::StatusOr<std::string> ReadLibraryFile(const std::string& path);

/// The object that a 64-bit ELF library exports as `symbol`, as it stands in the file: a view into
/// `bytes`, to the end of its segment. Pointers in it are not relocated. InvalidArgument when the
/// bytes are no such library, NotFound when it exports no such object. Any bytes are safe.
absl::StatusOr<std::string_view> ExportedObject(std::string_view bytes, std::string_view symbol);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_LIBRARY_FILE_H_
