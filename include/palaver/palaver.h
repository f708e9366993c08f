/* palaver.h - includes all public headers.
 *
 * To store conversations, begin with store.h, which lists the other headers of a store
 * (examples/embed.c). To get answers from a model, begin with turn.h, which uses a store
 * (examples/turn.c). For a binding to another language, use binding.h, which needs no other header
 * (examples/binding.py). The other headers can be used alone:
 *
 *   route.h               finds the session that a message belongs to
 *   context.h, window.h   decide what the model sees
 *   tokens.h              counts tokens
 *   config.h              reads one configuration file for all of these
 *   dialect.h             reads and writes messages in the formats of other APIs
 *   retry.h, loop.h       say when to retry a model call, and when a model repeats itself
 *
 * Rules for all headers:
 *
 *   - A function that can fail returns a pal_status and fills its last argument, `err`, which may
 *     be NULL. Outputs are named out_... and are meaningful only after PAL_OK.
 *   - A function uses a pal_str argument only until it returns, unless its comment says otherwise.
 *     Results are allocated in the arena that the caller passes. Free or reset the arena, never a
 *     result.
 *   - Zero a struct of options or a query before you use it: `pal_message_query load = {0};`. A
 *     member that is zero has the default in its comment. A struct keeps its size: new members take
 *     the place of `reserved`. So a program works with a newer library without being compiled
 *     again.
 *   - A handle belongs to the caller that created it. Release it with the function that its header
 *     names; that function accepts NULL. A handle or an arena must be used by one thread at a time,
 *     unless its header says otherwise. */
#ifndef PALAVER_H
#define PALAVER_H

#include "palaver/alloc.h"
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/binding.h"
#include "palaver/channel.h"
#include "palaver/config.h"
#include "palaver/context.h"
#include "palaver/dialect.h"
#include "palaver/error.h"
#include "palaver/foreign.h"
#include "palaver/header.h"
#include "palaver/id.h"
#include "palaver/limits.h"
#include "palaver/login.h"
#include "palaver/loop.h"
#include "palaver/message.h"
#include "palaver/note.h"
#include "palaver/permission.h"
#include "palaver/provider_info.h"
#include "palaver/retry.h"
#include "palaver/route.h"
#include "palaver/session.h"
#include "palaver/store.h"
#include "palaver/store_admin.h"
#include "palaver/store_batch.h"
#include "palaver/store_marks.h"
#include "palaver/store_records.h"
#include "palaver/store_search.h"
#include "palaver/store_turns.h"
#include "palaver/store_watch.h"
#include "palaver/str.h"
#include "palaver/tokens.h"
#include "palaver/turn.h"
#include "palaver/window.h"

#endif
