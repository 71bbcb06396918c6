/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * DNS messages as far as exchanges need them, and what the kernel tells user space about each. Pure, shared with user space;
 * README.md beside this file says why it is so.
 */
#ifndef FATHOM_DNS_H
#define FATHOM_DNS_H

#include "../../../bpf/flow.h"

#define DNS_PORT 53
#define DNS_HEADER_BYTES 12
#define DNS_NAME_MAX 255 /* with the lengths of its labels (RFC 1035, section 2.3.4) */
#define DNS_QUESTION_END 4 /* bytes of type and class */
/* A header and a question, as long as they can be, in whole words. */
#define DNS_BYTES_MAX 272
#define DNS_PROCESS_BYTES 16 /* TASK_COMM_LEN */

/* What can go wrong in the kernel's part; the texts are what users see. */
#define DNS_COUNTERS(X)                                                                                                \
	X(EVENTS_LOST, "DNS messages lost: ring full")                                                                 \
	X(UNREADABLE, "datagrams of port 53 that are no DNS query or answer")                                          \
	X(BEYOND, "DNS messages behind others in one TCP segment, not looked at")

#define X(name, text) DNS_COUNT_##name,
enum dns_counter { DNS_COUNTERS(X) DNS_COUNTER_COUNT };
#undef X

/* Set before the programs are loaded. */
struct dns_config {
	__u64 cgroup; /* only sockets in it or below; 0: all */
	__u32 cgroup_level; /* its depth */
	__u32 padding;
};
FATHOM_ASSERT_SIZE(struct dns_config, 16);

/* The header and the question of a message. */
struct dns_message {
	__u32 question; /* hash of name, type and class; the case of letters does not count */
	__u16 id;
	__u16 query_type;
	__u8 is_answer;
	__u8 is_truncated;
	__u8 response_code; /* of the header: the upper bits that EDNS has are elsewhere */
	__u8 has_question; /* an answer may have none: then question and query_type are 0 */
};
FATHOM_ASSERT_SIZE(struct dns_message, 12);

enum dns_event_kind {
	DNS_QUERY, /* leaves a socket of this host */
	DNS_ANSWER, /* arrives at one */
	DNS_ERROR, /* the socket learns of an error; there is no message */
};

struct dns_event {
	__u64 time; /* ns, CLOCK_MONOTONIC */
	__u64 socket; /* its cookie */
	struct flow_address local;
	struct flow_address remote;
	__u16 local_port;
	__u16 remote_port;
	__u32 process_id; /* that was running: of a query that of its sender */
	struct dns_message message;
	__u32 error; /* errno */
	__u8 kind; /* enum dns_event_kind */
	__u8 protocol; /* IPPROTO_* */
	__u8 padding[6];
	char process[DNS_PROCESS_BYTES];
};
FATHOM_ASSERT_SIZE(struct dns_event, 16 + 32 + 8 + 12 + 4 + 8 + 16);

/*
 * Servers may answer in other letters than they were asked in (RFC 1035, section 2.3.3). Without the bit that tells small
 * letters from capital ones a few other bytes are alike too, but a branch in the loop would be a way more for the verifier to
 * walk, in each of its rounds.
 */
static __always_inline __u32 dns_hash(__u32 hash, __u8 byte)
{
	return (hash ^ (byte | 0x20)) * 16777619U;
}

/* The question behind the header. Returns whether it is one, and whole. */
static __always_inline int dns_read_question(const __u8 *bytes, __u32 length, struct dns_message *message)
{
	__u32 hash = 2166136261U;
	__u32 label = 0; /* what is left of it */
	__u32 at, i;

	for (at = DNS_HEADER_BYTES; at < DNS_HEADER_BYTES + DNS_NAME_MAX; at++) {
		__u8 byte;

		if (at >= length)
			return 0;
		byte = bytes[at];
		if (!label && !byte) /* the end of the name */
			break;
		if (label)
			label--;
		else if (byte > 63) /* a pointer: there is nothing before it to point to */
			return 0;
		else
			label = byte;
		hash = dns_hash(hash, byte);
	}
	if (at == DNS_HEADER_BYTES + DNS_NAME_MAX || at + 1 + DNS_QUESTION_END > length)
		return 0;
	for (i = 1; i <= DNS_QUESTION_END; i++)
		hash = dns_hash(hash, bytes[at + i]);
	message->question = hash;
	message->query_type = bytes[at + 1] << 8 | bytes[at + 2];
	message->has_question = 1;
	return 1;
}

/*
 * A query or an answer of one question, or an answer without any, as servers give that could not read the query. `length`
 * may be less than the message has. Returns whether it is one.
 */
static __always_inline int dns_read(const __u8 *bytes, __u32 length, struct dns_message *message)
{
	__u32 questions;

	if (length < DNS_HEADER_BYTES || length > DNS_BYTES_MAX)
		return 0;
	if (bytes[2] & 0x78) /* another opcode than QUERY */
		return 0;
	*message = (struct dns_message){
		.id = bytes[0] << 8 | bytes[1],
		.is_answer = bytes[2] >> 7,
		.is_truncated = bytes[2] >> 1 & 1,
		.response_code = bytes[3] & 0x0f,
	};
	questions = bytes[4] << 8 | bytes[5];
	if (!questions)
		return message->is_answer;
	return questions == 1 && dns_read_question(bytes, length, message);
}

#endif
