// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The programs that are attached, unchanged but for the clock: it shows what the test has set it to. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* ns; in a section of its own, so that user space finds it by name. */
__u64 test_now SEC(".data.test_now") = 1;

#define bpf_ktime_get_ns() test_now

#include "../../bpf/dispatch.bpf.c"
