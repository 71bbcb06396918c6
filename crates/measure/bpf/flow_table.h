/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What user space sets and reads of the table of flows (flow_table.bpf.h). */
#ifndef FATHOM_FLOW_TABLE_H
#define FATHOM_FLOW_TABLE_H

#include "flow.h"

#define FLOW_BUCKET_SLOTS 16
/* With so many flows a bucket is left for one that has two less. */
#define FLOW_BUCKET_CROWDED 12

struct flow_bucket {
	__u64 words[FLOW_BUCKET_SLOTS];
};
FATHOM_ASSERT_SIZE(struct flow_bucket, 128);

/* The word of a free slot is 0, or what a packet marked whose flow went at the same moment. */
#define FLOW_WORD_IS_REFERENCED 1ULL /* a packet found it since the bucket was last full */
#define FLOW_WORD_IS_BUSY 2ULL /* someone writes the key, or the first state of a measurement */
#define FLOW_WORD_MEASUREMENTS 0xfcULL /* a bit for each measurement that runs: it has state of the flow */
#define FLOW_WORD_FLAGS 0xffULL /* the rest is the tag: bits of the flow's hash, and this one */
#define FLOW_WORD_TAKEN_SHIFT 63
#define FLOW_WORD_IS_TAKEN (1ULL << FLOW_WORD_TAKEN_SHIFT)

#define FLOW_KEY_WORDS (sizeof(struct flow_key) / sizeof(__u32))
/* NH is taken twice; the second one starts so many keys on (RFC 4418, section 5.2.1). */
#define FLOW_TABLE_SHIFT 4
#define FLOW_TABLE_KEYS (FLOW_KEY_WORDS + FLOW_TABLE_SHIFT)

/* Set before the programs are loaded, constant from then on. */
struct flow_table {
	__u32 keys[FLOW_TABLE_KEYS]; /* random: without them nobody can aim at a flow or a bucket */
	__u32 bucket_count;
};

#define FLOW_NO_SLOT 0xffffffffU

/* Where a flow is, as of a lookup. */
struct flow_slot {
	__u64 hash;
	__u32 index; /* FLOW_NO_SLOT: nowhere */
	__u32 padding;
};

#endif
