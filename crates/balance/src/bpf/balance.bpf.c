// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* The program that is attached. */
#include "balance.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("xdp")
int balance(struct xdp_md *xdp)
{
	return balance_path(xdp);
}
