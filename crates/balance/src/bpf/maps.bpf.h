/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The balancer's maps and configuration. Sizes are those of a small balancer: user space sets what it needs before load. */
#ifndef FATHOM_BALANCE_MAPS_BPF_H
#define FATHOM_BALANCE_MAPS_BPF_H

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

#include "servers.bpf.h"

/* In sections of their own: user space finds them by name, without knowing the layout of the others. */
const volatile struct balance_config balance_config SEC(".rodata.balance_config") = {};
const volatile struct response_config response_config SEC(".rodata.response_config") = {};

/* Services by address, port and protocol; written by user space, which is told when it is full. A few hundred services have an entry or two each. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct balance_service_key);
	__type(value, struct balance_service);
} balance_services SEC(".maps");

/* Services of networks, asked only if there are any; written by user space, which is told when it is full. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__uint(max_entries, 256);
	__type(key, struct balance_network_key);
	__type(value, struct balance_service);
} balance_networks SEC(".maps");

/* How often services have changed; written by user space after each change. One number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} balance_generation SEC(".maps");

/* Services that each CPU has seen, at the slot of their hash; the later of two wins. 3 KB. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, BALANCE_RECENT);
	__type(key, __u32);
	__type(value, struct balance_recent);
} balance_recent SEC(".maps");

/* The rings of all services, one behind the other; written by user space, in place. Room for 16 of 65,537 entries: 2 MB. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16 * 16385);
	__type(key, __u32);
	__type(value, struct balance_ring_element);
} balance_rings SEC(".maps");

/*
 * The table of connections; written by packets, read by user space (which connections has a server?). What happens when a bucket is full is in
 * table.h. Memory that can be mapped begins at a page, so that a bucket is a cache line.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16384);
	__type(key, __u32);
	__type(value, struct balance_bucket);
} balance_buckets SEC(".maps");

/*
 * Of how many buckets, from the first on, the connections are measured: user space writes it, as many as the load allows. Where all of these are,
 * their states are together. One number.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} balance_sampling SEC(".maps");

/*
 * What is measured of each connection, at the number of its slot: of all slots, of those of the buckets that can be sampled, or one element if nothing
 * is measured. Written by packets, read by user space. A sampled flow that is in its second bucket, beyond the end, is not measured.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 16384 * BALANCE_BUCKET_SLOTS);
	__type(key, __u32);
	__type(value, struct balance_measured);
} balance_measured SEC(".maps");

/* Servers by the id that they put into connection ids of QUIC; written by user space, which is told when it is full. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 1024);
	__type(key, struct balance_quic_id);
	__type(value, __u32);
} balance_quic_ids SEC(".maps");

/* Where the first fragment of a datagram went, for those that follow it; written by first fragments, the later of two at a slot wins. 32 KB. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, __u64);
} balance_fragments SEC(".maps");

/* Traffic by service and by server; written by every packet. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 256);
	__type(key, __u32);
	__type(value, struct balance_traffic);
} balance_service_traffic SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1024);
	__type(key, __u32);
	__type(value, struct balance_traffic);
} balance_server_traffic SEC(".maps");

/* What happened to packets and connections, by name; one entry, written by every packet. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct balance_cpu);
} balance_cpus SEC(".maps");

#define BALANCE_RING_BYTES (1 << 20)

/* Epochs on their way to user space. What does not fit is lost and counted. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, BALANCE_RING_BYTES);
} balance_epochs SEC(".maps");

#endif
