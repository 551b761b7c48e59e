#!/usr/bin/env bash
# Installs the program and its package into a folder of its own, builds a policy against that and nothing else, and
# runs it; then shows that another compiler is refused in one line. CTest calls this.
# usage: install.sh SOURCE_FOLDER BUILD_FOLDER COMPILER OTHER_COMPILER
set -euo pipefail

source=$1 build=$2 compiler=$3 other=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { echo "install: $*" >&2; exit 1; }

cmake --install "$build" --prefix "$work/installed" >log || { cat log >&2; fail "cmake --install failed"; }
mkdir -p policies/fifo
cp "$source/policies/fifo/fifo.h" policies/fifo/
cp "$source/policies/fifo/fifo.cc" policy.cc
cp "$source/tests/plugins/fifo.cc" export.cc
cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.25)
project(mine CXX)
find_package(schedtwin 0.1 REQUIRED)
schedtwin_add_policy(mine policy.cc export.cc)
target_include_directories(mine PRIVATE ${CMAKE_SOURCE_DIR})
END
configure() { # FOLDER COMPILER
  cmake -G Ninja -B "$1" -DCMAKE_PREFIX_PATH="$work/installed" -DCMAKE_CXX_COMPILER="$2" >log 2>&1
}
{ configure made "$compiler" && cmake --build made >>log 2>&1; } || { cat log >&2; fail "the policy does not build"; }
digest() { installed/bin/schedtwin sim --limit 100 --policy "$1" --json | grep -o '"decision_digest":"[^"]*"'; }
[ "$(digest ./made/libmine.so)" = "$(digest fifo)" ] || fail "the policy is not what the shipped one is"

[ -x "$other" ] || { echo "install: no other compiler to try"; exit 0; }
! configure other "$other" || fail "another compiler was taken"
tr '\n' ' ' <log | tr -s ' ' | grep -q "this project's C++ compiler is .*, schedtwin was built with .*; configure a fresh" ||
  { cat log >&2; fail "another compiler is not told"; }
