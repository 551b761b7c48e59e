#!/usr/bin/env bash
# Runs docs/tutorial-policy.md as a reader does: writes the blocks that name a file, runs the blocks of commands in
# order in one folder, and looks for the lines of the blocks of text in what they printed. CTest calls this.
# usage: run.sh TUTORIAL BUILD_FOLDER COMPILER
set -euo pipefail

tutorial=$1
export SCHEDTWIN=$2 CXX=$3 PATH=$2:$PATH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() { echo "tutorial: $*" >&2; exit 1; }

# A fence "```LANGUAGE FILE" opens FILE; "```sh" and "```text" go to one file each.
awk -v work="$work" '
  /^```/ && open { open = 0; next }
  /^```/ { open = 1; split($0, word, " "); file = word[2]
           if (word[1] == "```sh") file = "commands.sh"
           if (word[1] == "```text") file = "expected"
           if (file == "") exit 1
           next }
  open { print >> (work "/" file) }
  END { if (open) exit 1 }' "$tutorial" || fail "a block is not closed, or says neither language nor file"
for file in CMakeLists.txt shortest_prompt.cc commands.sh expected; do
  [ -s "$file" ] || fail "it has no block for $file"
done
lines=$(grep -vc '^$' shortest_prompt.cc)
[ "$lines" -le 60 ] || fail "the policy has $lines lines, more than the 60 that the page promises"

bash -euxo pipefail commands.sh >output 2>&1 || { cat output >&2; fail "a command failed"; }
# Tables are as wide as their widest cell; a line is its words.
sed -E 's/ +/ /g; s/^ //' output >words
while IFS= read -r line; do
  grep -qF -- "$(sed -E 's/ +/ /g; s/^ //' <<<"$line")" words ||
    { cat output >&2; fail "the commands did not print: $line"; }
done <expected
schedtwin db list --json >runs
for world in sim cpu; do
  grep -q "\"world\": *\"$world\"" runs || fail "no run in world $world"
done
schedtwin db check
