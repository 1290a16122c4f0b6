#!/usr/bin/env bash
# Puts what is for debuggers and backtraces into a file of its own beside each program or library:
# NAME.debug, which is found there by whoever needs it, and is most of the whole.
#
# Usage: split-debug.sh FILE...
set -euo pipefail

for file in "$@"; do
    # Cargo has not built it anew since.
    [ "$file" -nt "$file.debug" ] || continue
    objcopy --only-keep-debug "$file" "$file.debug"
    chmod -x "$file.debug"
    objcopy --strip-debug --add-gnu-debuglink="$file.debug" "$file"
    touch --reference="$file" "$file.debug"
done
