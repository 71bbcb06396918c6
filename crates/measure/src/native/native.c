// SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause
#include "native.h"

int fathom_selection_admits(const struct selection *selection, const struct flow_key *key)
{
	return selection_admits(selection, key);
}

__u64 fathom_flow_hash(const struct flow_key *key, __u64 seed)
{
	return flow_hash(key, seed);
}

#define X(name, text) text,
const char *const fathom_packet_verdict_names[PACKET_VERDICT_COUNT] = { PACKET_VERDICTS(X) };
const char *const fathom_packet_hook_names[PACKET_HOOK_COUNT] = { PACKET_HOOKS(X) };
#undef X
