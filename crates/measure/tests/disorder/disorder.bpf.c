// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
/* What profiles count of a segment, by a program that test runs can run: those that are attached hang on functions of the stack. */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_helpers.h>

#include "../../src/profile/profile.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

/* What the vector's segments were, all together. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct profile_disorder);
} disorder SEC(".maps");

/* A frame of four words: start and end of the segment's data, the byte that is expected, and nothing. Returns an enum profile_arrival. */
SEC("xdp")
int disorder_segment(struct xdp_md *context)
{
	const __u32 *words = (void *)(long)context->data;
	enum profile_arrival arrival;
	struct profile_disorder *all;
	__u32 key = 0;

	if ((void *)(words + 4) > (void *)(long)context->data_end)
		return -1;
	all = bpf_map_lookup_elem(&disorder, &key);
	if (!all)
		return -1;
	arrival = profile_arrival(words[0], words[1], words[2]);
	profile_take(all, arrival, words[0], words[1], words[2]);
	return arrival;
}
