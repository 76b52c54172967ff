// HTTP by libmicrohttpd: receives calls, has them served, sends their replies.
//
// A call that needs the encoder is put into the queue and its connection suspended; whoever finishes the job resumes
// it.
#pragma once

#include "server.h"

struct http;

// Listens; ends the program where that is not possible. port: what was chosen where the settings say 0
struct http * http_start(struct server * s, const char * program, int * port);
void http_quiesce(struct http * h); // no new connections
// Ends; no job may be waiting.
void http_stop(struct http * h);
