#include <string>
#include <vector>

#include "experiments/cli/program.h"

int main(int argc, char** argv) {
  return schedtwin::cli::RunProgram(
      std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
