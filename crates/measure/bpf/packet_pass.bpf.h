/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet on its way past a hook: what is found out of it once, for all measurements. */
#ifndef FATHOM_PACKET_PASS_BPF_H
#define FATHOM_PACKET_PASS_BPF_H

#include "flow_table.bpf.h"
#include "packet_parse.h"

struct packet_pass {
	struct packet packet;
	struct packet_cursor cursor;
	struct flow_slot slot; /* of its flow, where a measurement uses one */
	__u64 now; /* ns; 0: no measurement has asked */
	__u8 first[16]; /* of a payload that lies in pages */
	__u8 hook; /* enum packet_hook */
	__u8 is_turned; /* leaves by the interface that it came in by */
	__u8 padding[6];
};

/* The clock is read once a packet, and by many packets not at all: it takes as long as all the rest. */
static __always_inline __u64 packet_now(struct packet_pass *pass)
{
	if (!pass->now)
		pass->now = bpf_ktime_get_ns();
	return pass->now;
}

#endif
