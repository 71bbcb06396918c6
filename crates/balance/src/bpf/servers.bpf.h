/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The map that the program for packets of clients and that for checks have in common. */
#ifndef FATHOM_BALANCE_SERVERS_BPF_H
#define FATHOM_BALANCE_SERVERS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "balance.h"

/* Servers by their number; written by user space, word by word. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct balance_server);
} balance_servers SEC(".maps");

#endif
