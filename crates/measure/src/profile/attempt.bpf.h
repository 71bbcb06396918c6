/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Attempts to connect that find no route: no SYN tells of them. */
#ifndef FATHOM_PROFILE_ATTEMPT_BPF_H
#define FATHOM_PROFILE_ATTEMPT_BPF_H

#include "who.bpf.h"

/* A connection to `address`, which the socket does not know yet or no longer. */
static __always_inline void profile_note_connect(struct sock *sk, __u64 connection, __u8 moment, int error,
						 const struct flow_address *address, __u16 port)
{
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;
	struct profile_attempt *attempt;

	if (!profile_is_selected_to(sk, address, port))
		return;
	attempt = PROFILE_RESERVE(sizeof(*attempt));
	if (!attempt)
		return;
	profile_describe(&attempt->of, sk, connection, moment);
	attempt->of.error = error;
	attempt->of.remote = *address;
	attempt->of.remote_port = port;
	attempt->cgroup = cgroup ? cgroup->kn->id : 0;
	attempt->net_namespace = sk->__sk_common.skc_net.net->ns.inum;
	attempt->padding = 0;
	profile_submit(attempt);
}

/* The attempt that this socket made before had no route: no SYN followed. */
static __always_inline void profile_tell_failed(struct profile_slot *slot)
{
	struct profile_attempt *attempt = PROFILE_RESERVE(sizeof(*attempt));

	if (!attempt)
		return;
	__builtin_memset(attempt, 0, sizeof(*attempt));
	attempt->of.time = slot->since;
	attempt->of.connection = slot->connection;
	attempt->of.moment = PROFILE_FAILED;
	attempt->of.is_ipv6 = slot->is_ipv6;
	if (!slot->is_ipv6)
		attempt->of.local = flow_address_v4(0);
	attempt->of.remote = slot->remote;
	attempt->of.remote_port = slot->remote_port;
	attempt->of.process_id = slot->process_id;
	PROFILE_COPY_NAME(attempt->of.process, slot->process);
	attempt->cgroup = slot->cgroup;
	attempt->net_namespace = slot->net_namespace;
	profile_submit(attempt);
}

/* connect() is about to look for a route; user space finds those that have waited in their slots for long. */
static __always_inline void profile_note_attempt(struct sock *sk, __u64 connection, const struct flow_address *address,
						 __u16 port)
{
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;
	struct profile_slot *slot;

	if (!profile_is_selected_to(sk, address, port))
		return;
	slot = profile_claim(connection);
	if (!slot) {
		profile_note_connect(sk, connection, PROFILE_ATTEMPT, 0, address, port);
		return;
	}
	if (slot->since && slot->moment == PROFILE_ATTEMPT)
		profile_tell_failed(slot);
	slot->remote = *address;
	slot->remote_port = port;
	slot->is_ipv6 = sk->__sk_common.skc_family == AF_INET6;
	slot->cgroup = cgroup ? cgroup->kn->id : 0;
	slot->net_namespace = sk->__sk_common.skc_net.net->ns.inum;
	/* What comes of it has a time of its own, and what does not need not be told to the microsecond. */
	profile_keep(slot, PROFILE_ATTEMPT, bpf_ktime_get_coarse_ns());
}

#endif
