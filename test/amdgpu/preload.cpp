// SPDX-License-Identifier: MIT
// The calls of the C library and of libdrm by which ROCr reaches the kernel's driver.
#undef _FILE_OFFSET_BITS // names are themselves here: offsets have 64 bits with and without

#include "driver.hpp"
#include "kfd.hpp"
#include "machine.hpp"
#include <amdgpu.h>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <memory>
#include <sys/mman.h>
#include <unistd.h>

using namespace amdgpu;

namespace {

template <class F> F *next(const char *name) {
  return reinterpret_cast<F *>(dlsym(RTLD_NEXT, name));
}

bool render_node(unsigned minor) {
  return minor >= 128 && minor < 128 + nodes().gpus;
}
bool device(const char *path) {
  unsigned minor;
  return path && (!strcmp(path, "/dev/kfd") ||
                  (sscanf(path, "/dev/dri/renderD%u", &minor) == 1 && render_node(minor)));
}
// The path below the folder, by the folder's own name or by that of its class, or NULL.
const char *below(const char *path) {
  for (const std::string folder : {topology_folder, "/sys/class/kfd/kfd/topology"})
    if (path && !strncmp(path, folder.c_str(), folder.size()) && path[folder.size()] == '/')
      return path + folder.size() + 1;
  return nullptr;
}

FILE *open_text(const char *path) {
  const auto text = topology(path);
  if (!text) return errno = ENOENT, nullptr;
  FILE *file = tmpfile(); // one without a name
  if (!file) return nullptr;
  fwrite(text->data(), 1, text->size(), file);
  rewind(file);
  return file;
}

struct Folder {
  static constexpr uint64_t sign = 0x616d646770756469;
  uint64_t is = sign; // a DIR of the C library begins with a descriptor
  std::string names;
  size_t at = 0;
  dirent entry = {};
};
Folder *folder(DIR *dir) {
  auto *f = reinterpret_cast<Folder *>(dir);
  return f && f->is == Folder::sign ? f : nullptr;
}

struct Device {
  int fd;
};

} // namespace

extern "C" {

FILE *fopen(const char *path, const char *mode) {
  static auto *const real = next<FILE *(const char *, const char *)>("fopen");
  return below(path) ? open_text(below(path)) : real(path, mode);
}
FILE *fopen64(const char *path, const char *mode) {
  return fopen(path, mode);
}
DIR *opendir(const char *path) {
  static auto *const real = next<DIR *(const char *)>("opendir");
  if (!below(path)) return real(path);
  const auto names = topology(below(path));
  if (!names) return errno = ENOENT, nullptr;
  auto *f = new Folder;
  f->names = *names;
  return reinterpret_cast<DIR *>(f);
}
dirent *readdir(DIR *dir) {
  static auto *const real = next<dirent *(DIR *)>("readdir");
  Folder *f = folder(dir);
  if (!f) return real(dir);
  const size_t end = f->names.find('\n', f->at);
  if (end == f->names.npos) return nullptr;
  f->entry.d_type = DT_DIR;
  snprintf(f->entry.d_name, sizeof f->entry.d_name, "%s",
           f->names.substr(f->at, end - f->at).c_str());
  f->at = end + 1;
  return &f->entry;
}
dirent64 *readdir64(DIR *dir) {
  static_assert(sizeof(dirent64) == sizeof(dirent));
  return reinterpret_cast<dirent64 *>(readdir(dir));
}
int closedir(DIR *dir) {
  static auto *const real = next<int(DIR *)>("closedir");
  Folder *f = folder(dir);
  if (!f) return real(dir);
  delete f;
  return 0;
}

int open(const char *path, int flags, ...) {
  static auto *const real = next<int(const char *, int, ...)>("open");
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return device(path) ? open_device() : real(path, flags, mode);
}
int open64(const char *path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open(path, flags, mode);
}

int ioctl(int fd, unsigned long request, ...) noexcept {
  static auto *const real = next<int(int, unsigned long, ...)>("ioctl");
  va_list list;
  va_start(list, request);
  void *args = va_arg(list, void *);
  va_end(list);
  if ((request >> 8 & 255) != 'K') return real(fd, request, args);
  const int error = device_call(request, args);
  if (error) errno = error;
  return error ? -1 : 0;
}

// libdrm, of a render node

int drmOpenRender(int minor) {
  return render_node(unsigned(minor)) ? open_device() : -ENOENT;
}
int drmClose(int fd) {
  return close(fd);
}
int drmCommandWriteRead(int, unsigned long, void *, unsigned long) {
  return -EOPNOTSUPP;
}
int amdgpu_device_initialize(int fd, uint32_t *major, uint32_t *minor,
                             amdgpu_device_handle *handle) {
  *major = 3, *minor = 57;
  fd = fcntl(fd, F_DUPFD_CLOEXEC, 0); // the caller closes its own
  if (fd < 0) return -errno;
  *handle = reinterpret_cast<amdgpu_device_handle>(new Device{fd});
  return 0;
}
int amdgpu_device_deinitialize(amdgpu_device_handle handle) {
  auto *d = reinterpret_cast<Device *>(handle);
  close(d->fd);
  delete d;
  return 0;
}
int amdgpu_device_get_fd(amdgpu_device_handle handle) {
  return reinterpret_cast<Device *>(handle)->fd;
}
const char *amdgpu_get_marketing_name(amdgpu_device_handle) {
  return nodes().product.c_str();
}
// A buffer of another process. ROCr wants to know only that it exists: the memory comes through
// /dev/kfd.
struct amdgpu_bo {
  int fd;
};
int amdgpu_bo_import(amdgpu_device_handle, amdgpu_bo_handle_type type, uint32_t shared,
                     amdgpu_bo_import_result *out) {
  Place place;
  if (type != amdgpu_bo_handle_type_dma_buf_fd || !place_in(int(shared), place)) return -EINVAL;
  out->buf_handle = new amdgpu_bo{fcntl(int(shared), F_DUPFD_CLOEXEC, 0)};
  out->alloc_size = place.bytes;
  return 0;
}
int amdgpu_bo_free(amdgpu_bo_handle bo) {
  close(bo->fd);
  delete bo;
  return 0;
}
int amdgpu_query_gpu_info(amdgpu_device_handle, amdgpu_gpu_info *info) {
  *info = {};
  info->asic_id = nodes().device;
  info->family_id = 141; // of all with a gfx9 that are here
  info->gpu_counter_freq = 100000;
  info->num_shader_engines = nodes().engines;
  return 0;
}

} // extern "C"
