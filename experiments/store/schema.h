// The schema of the results file and its migrations. Version n of the file is what migrations 1..n
// made; SQLite's user_version holds n. The store calls Migrate when it opens a file for writing,
// and CheckVersion when it opens one for reading. docs/schema.md tells what the columns mean.
#ifndef SCHEDTWIN_EXPERIMENTS_STORE_SCHEMA_H_
#define SCHEDTWIN_EXPERIMENTS_STORE_SCHEMA_H_

#include <cstdint>
#include <span>

#include "absl/status/status.h"
#include "experiments/store/sqlite.h"

namespace schedtwin {

/// Written into every results file, so that another program's database is never taken for one.
inline constexpr std::int64_t kApplicationId = 0x53435457;  // "SCTW"

struct Migration {
  std::int64_t version;  ///< 1, 2, 3, ...
  const char* sql;
};

/// All migrations, oldest first. Append only: what a published version did never changes.
std::span<const Migration> Migrations();
std::int64_t CurrentVersion();

/// Brings the file to the current version in one transaction: a new or empty file gets everything,
/// an older one what it lacks. Touches nothing when the file is current, newer (an error), or
/// another program's (an error).
absl::Status Migrate(Database& database, std::span<const Migration> migrations = Migrations());

/// OK when this program can read the file as it is.
absl::Status CheckVersion(Database& database);

}  // namespace schedtwin

#endif  // SCHEDTWIN_EXPERIMENTS_STORE_SCHEMA_H_
