#!/usr/bin/env bash
# The demo: fit the digits model into 800 bytes, run the plan, emit C, build that with the system's compiler, run it,
# and compare the two outputs byte for byte. `make demo` calls it with `stowplan` on the PATH.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cp "$here/digits_int8.tflite" "$here/sample.npy" "$work"
cd "$work"

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

show stowplan compile digits_int8.tflite -m 800 -o digits.stow
show stowplan run digits.stow --input sample.npy --output host.bin
show stowplan codegen digits.stow -b c --format app -o digits.c
show "${CC:-cc}" -std=c11 -O2 -Wall -Wextra -Werror -ffp-contract=off digits.c -o ./digits -lm

# An .npy file is a header and then the tensor's bytes: 64 of them here.
tail -c 64 sample.npy >sample.bin
printf '\n$ ./digits --raw sample.bin\n'
./digits --raw sample.bin >device.bin

echo "the plan here:          $(od -An -td1 host.bin | xargs)"
echo "the generated program:  $(od -An -td1 device.bin | xargs)"
cmp host.bin device.bin
echo "the same bytes; the digit: $(od -An -td1 device.bin | xargs -n1 | awk '$1 > best || NR == 1 { best = $1; n = NR } END { print n - 1 }')"
