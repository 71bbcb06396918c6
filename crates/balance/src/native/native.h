/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What user space calls of the balancer's C, and the structs that it shares with the kernel. */
#ifndef FATHOM_BALANCE_NATIVE_H
#define FATHOM_BALANCE_NATIVE_H

#include "../bpf/balance.h"

#define BALANCE_NO_SLOT 0xffffffffU

/* The entry of a connection's flow in a ring of so many entries. */
__u32 fathom_balance_ring_entry(__u64 word, __u32 ring_size);

/* For the tests of the table, which the programs have too. They return a slot, or BALANCE_NO_SLOT. */
__u32 fathom_balance_look_up(struct balance_bucket *buckets, __u64 hash, const struct balance_config *config);
/* Gives a flow that is not there a slot. */
__u32 fathom_balance_keep(struct balance_bucket *buckets, __u64 hash, __u16 server, __u32 now,
			  const struct balance_config *config, struct balance_cpu *cpu);
void fathom_balance_touch(struct balance_bucket *buckets, __u32 slot, __u32 now, int is_over);
int fathom_balance_begins_anew(const struct balance_bucket *buckets, __u32 slot, int is_syn, __u32 now,
			       const struct balance_config *config);

/*
 * For the fuzz target: reads a frame as the program does, with what errors quote and connection ids name. If it can be sent to this server, writes the
 * headers behind Ethernet that go in front of its IP packet, and returns their bytes, and where that begins; else returns -1.
 */
int fathom_balance_wrap(const __u8 *frame, __u32 length, const struct balance_server *server, __u8 *outer,
			__u32 *network);

extern const char *const fathom_balance_counter_names[BALANCE_COUNTER_COUNT];
extern const char *const fathom_balance_check_counter_names[BALANCE_CHECK_COUNTER_COUNT];
extern const char *const fathom_balance_encapsulation_names[BALANCE_ENCAPSULATION_COUNT];

#endif
