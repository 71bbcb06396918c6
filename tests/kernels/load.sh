#!/bin/sh
# Guest test of the BPF programs: the kernel takes every one of them, and those that it can attach without harm attach.

# shellcheck source=checks
. /usr/lib/checks

fathom doctor >/doctor
cat /doctor
check "the kernel takes every program" grep -q '^  ok  *interfaces ' /doctor
check "programs attach to traffic control" grep -qE '^  (ok|note) +attaching  ' /doctor
check "a program attaches to XDP" grep -q '^  ok  *attaching with --xdp ' /doctor
finish
