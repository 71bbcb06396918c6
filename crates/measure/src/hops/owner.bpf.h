/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whose a socket is, where processes are selected: learnt when it is made, or by looking through open files. */
#ifndef FATHOM_HOPS_OWNER_BPF_H
#define FATHOM_HOPS_OWNER_BPF_H

#include "state.bpf.h"

#include <bpf/bpf_core_read.h>

#define ANCESTORS_MAX 8 /* a shell that runs a script that runs a command: rarely more */

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct task_struct {
	int tgid;
	struct task_struct *group_leader;
	struct task_struct *real_parent;
	char comm[16];
};

struct sock {
	__u16 sk_protocol;
};

struct socket {
	struct sock *sk;
};

struct seq_file;
struct file;

struct bpf_iter_meta {
	struct seq_file *seq;
	__u64 session_id;
	__u64 seq_num;
};

struct bpf_iter__task_file {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
	__u32 fd;
	struct file *file;
};

#pragma clang attribute pop

static __always_inline int hops_has_name(struct task_struct *task)
{
	char name[16] = {};
	__u32 i;

	BPF_CORE_READ_STR_INTO(&name, task, group_leader, comm);
	for (i = 0; i < sizeof(name); i++) {
		if (name[i] != hops_config.process[i])
			return 0;
		if (!name[i])
			break;
	}
	return 1;
}

static __always_inline int hops_is_descendant(struct task_struct *task)
{
	__u32 i;

	for (i = 0; i < ANCESTORS_MAX && task; i++) {
		__u32 id = BPF_CORE_READ(task, tgid);

		if (id == hops_config.parent)
			return 1;
		if (id <= 1)
			return 0;
		task = BPF_CORE_READ(task, real_parent);
	}
	return 0;
}

static __always_inline int hops_is_owner(struct task_struct *task)
{
	if (hops_config.parent && !hops_is_descendant(task))
		return 0;
	return !hops_config.process[0] || hops_has_name(task);
}

#endif
