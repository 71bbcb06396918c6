// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The programs that are attached, unchanged but for the clocks: they show what the test has set them to. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

/* ns; in a section of its own, so that user space finds it by name. */
__u64 test_now SEC(".data.test_now") = 1;

#define bpf_ktime_get_ns() test_now
#define bpf_ktime_get_coarse_ns() test_now
#define bpf_jiffies64() test_now

#include "../../src/hops/hops.bpf.c"
