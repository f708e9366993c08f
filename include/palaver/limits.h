/* limits.h - every bound has a name here. Those that options can change name their option. */
#ifndef PALAVER_LIMITS_H
#define PALAVER_LIMITS_H

#define PAL_MESSAGE_BYTES_MAX (16u << 20) /* pal_store_options.message_bytes_max */
#define PAL_BLOB_BYTES_MAX (64u << 20)    /* pal_store_options.blob_bytes_max */
#define PAL_BUSY_TIMEOUT_MS 30000         /* pal_store_options.busy_timeout_ms */
#define PAL_READERS_MAX 8                 /* pal_store_options.readers_max */

#define PAL_TENANT_LEN_MAX 128
#define PAL_KEY_LEN_MAX 1024 /* of keys and aliases */
#define PAL_ALIASES_MAX 256  /* of one session */
#define PAL_TITLE_LEN_MAX 1024
#define PAL_NAME_LEN_MAX 1024 /* of a project and an agent */
#define PAL_METADATA_LEN_MAX (256u << 10)
#define PAL_SCOPE_LEN_MAX (64u << 10)
#define PAL_CLIENT_ID_LEN_MAX 256
#define PAL_MODEL_LEN_MAX 256
#define PAL_LABEL_LEN_MAX 256 /* the short texts of ledger rows, leases, inbox items */
#define PAL_MARK_BODY_LEN_MAX (16u << 20)
#define PAL_INBOX_ITEMS_MAX 1000 /* that wait in one session */
#define PAL_LEASE_TTL_MS_MAX (24 * 3600 * 1000)
#define PAL_APPEND_MESSAGES_MAX 10000 /* in one append */
#define PAL_BATCH_OPS_MAX 10000       /* in one pal_store_apply() */
#define PAL_BATCH_BYTES_MAX (1u << 30) /* of all messages in it */
#define PAL_SESSION_PAGE_MAX 1000
#define PAL_SESSION_PAGE_DEFAULT 50
#define PAL_FORK_DEPTH_MAX 1000000 /* a chain that is longer than this is a damaged one */
#define PAL_BLOB_UNUSED_MS_MAX (24 * 3600 * 1000)
#define PAL_COMMIT_QUEUE_MAX 4096 /* calls that wait for the writer; more of them block */
#define PAL_COMMIT_WORKS_MAX 512  /* operations of several calls in one commit */

#define PAL_ROUTE_ID_LEN_MAX 4096 /* of every text of an inbound context or of route settings */
#define PAL_ROUTE_AGENTS_MAX 10000
#define PAL_ROUTE_RULES_MAX 10000
#define PAL_ROUTE_LINK_IDS_MAX 1000000 /* ids of all identity links together */

#endif
