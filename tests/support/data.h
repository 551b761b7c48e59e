// Where the public data lies that some tests and benchmarks read: $SCHEDTWIN_DATA, else
// ../shared/data. A test that finds none there skips and says so.
#ifndef SCHEDTWIN_TESTS_SUPPORT_DATA_H_
#define SCHEDTWIN_TESTS_SUPPORT_DATA_H_

#include <cstdlib>
#include <filesystem>
#include <string>

namespace schedtwin {

/// `file` is relative to the data's folder.
inline std::string DataFile(const std::string& file) {
  const char* root = std::getenv("SCHEDTWIN_DATA");
  return std::string(root != nullptr ? root : "../shared/data") + "/" + file;
}

inline std::string AzureConvFile() {
  return DataFile("traces/azure-llm-2023/AzureLLMInferenceTrace_conv.csv");
}

/// The real service where its trace is, else its built-in twin.
inline std::string AzureConv() {
  return std::filesystem::exists(AzureConvFile()) ? AzureConvFile() : "synth:azure_conv";
}

}  // namespace schedtwin

#endif  // SCHEDTWIN_TESTS_SUPPORT_DATA_H_
