/* palaver.h - everything that an embedding program needs.
 *
 * A program that keeps conversations begins with store.h; one that wants answers from a model with
 * turn.h, on top of it; examples/embed.c and examples/turn.c are the two at their shortest. The
 * others stand for themselves: route.h (which session?), context.h and window.h (what does the
 * model see?), tokens.h (how much is it?), config.h (one file for all of them), dialect.h (messages
 * as other APIs write them), retry.h and loop.h (when to call a model again, and when to stop it).
 *
 * What holds everywhere:
 * - A call that can fail returns a pal_status and fills the `err` at its end, which may be NULL.
 *   Outputs are named out_..., and count after PAL_OK only.
 * - A pal_str that is handed in is borrowed until the call returns, unless the call says otherwise.
 *   Results lie in the arena that the caller passes: free or reset that, never a result.
 * - Structs of options and queries begin as zeros, `pal_load load = {0};`: what stays zero has the
 *   default that is named beside it. Members are only ever added at the end.
 * - Handles belong to whoever opened or made them, and are released by the function that their
 *   header names, which accepts NULL. A handle, and an arena, is used by one thread at a time
 *   unless its header says more. */
#ifndef PALAVER_H
#define PALAVER_H

#include "palaver/alloc.h"
#include "palaver/api.h"
#include "palaver/arena.h"
#include "palaver/config.h"
#include "palaver/context.h"
#include "palaver/dialect.h"
#include "palaver/error.h"
#include "palaver/foreign.h"
#include "palaver/id.h"
#include "palaver/limits.h"
#include "palaver/loop.h"
#include "palaver/message.h"
#include "palaver/retry.h"
#include "palaver/route.h"
#include "palaver/session.h"
#include "palaver/store.h"
#include "palaver/str.h"
#include "palaver/tokens.h"
#include "palaver/turn.h"
#include "palaver/window.h"

#endif
