// SPDX-License-Identifier: MIT
#ifndef _GNU_SOURCE
#define _GNU_SOURCE // pipe2
#endif
#include "plot.h"

#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static FILE *points; // to shmem_plot, a line of JSON each
static pid_t script;

#ifndef PLOT_DIR // from the folder of this program
#define PLOT_DIR "."
#endif

// Beside this program in a build tree, else where it is installed, or in PATH.
static const char *path_of_script(void) {
  static char program[PATH_MAX / 2], path[PATH_MAX];
  const ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
  const char *const end = n > 0 ? strrchr(program, '/') : NULL;
  const int folder = end ? (int)(end - program) : 0;
  for (int i = 0; i < 2 && folder; ++i) {
    snprintf(path, sizeof path, "%.*s/%s/shmem_plot", folder, program, i ? PLOT_DIR : ".");
    if (access(path, X_OK) == 0) return path;
  }
  return "shmem_plot";
}

bool plot_begin(const char *file) {
  int in[2], out[2];
  if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) return false;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  char name[] = "shmem_plot", *argv[] = {name, (char *)file, NULL};
  const int error = posix_spawnp(&script, path_of_script(), &actions, NULL, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(in[0]), close(out[1]);
  if (error) fprintf(stderr, "error: PE 0: --plot: shmem_plot: %s\n", strerror(error));
  char word[8] = "";
  const bool ready = !error && read(out[0], word, sizeof word - 1) > 0;
  close(out[0]);
  signal(SIGPIPE, SIG_IGN); // a script that has ended has said why
  points = ready ? fdopen(in[1], "w") : NULL;
  return points != NULL;
}

static void put_string(const char *key, const char *text) {
  fprintf(points, "\"%s\": \"", key);
  for (const unsigned char *p = (const unsigned char *)text; *p; ++p)
    if (*p < 32 || *p > 126)
      fputc('?', points);
    else
      fprintf(points, *p == '"' || *p == '\\' ? "\\%c" : "%c", *p);
  fputc('"', points);
}

void plot_title(const char *format, ...) {
  if (!points) return;
  char title[256];
  va_list args;
  va_start(args, format);
  vsnprintf(title, sizeof title, format, args);
  va_end(args);
  fputc('{', points), put_string("title", title), fputs("}\n", points);
}

void plot_add(const struct plot_point *p) {
  if (!points) return;
  fputc('{', points), put_string("panel", p->panel);
  fputs(", ", points), put_string("name", p->name);
  fputs(", ", points), put_string("unit", p->unit);
  fprintf(points, ", \"other\": %s, \"bytes\": %.0f, \"value\": %.9g}\n",
          p->other ? "true" : "false", p->bytes, p->value);
}

bool plot_end(void) {
  if (!points) return true;
  fclose(points);
  int status = 0;
  return waitpid(script, &status, 0) == script && status == 0;
}
