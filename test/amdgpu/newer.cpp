// SPDX-License-Identifier: MIT
// What ROCr 6.1 asks beyond 5.2, and the machine has not. ROCr goes on where it hears that.
#include "hsakmt.hpp"

extern "C" {

#if __has_include(<hsakmt/hsakmt.h>)
HSAKMT_STATUS hsaKmtGetAMDGPUDeviceHandle(HSAuint32 node, HsaAMDGPUDeviceHandle *device) {
  static char devices[256]; // a name that libdrm's functions would know, were they called
  *device = devices + node;
  return HSAKMT_STATUS_SUCCESS;
}
HSAKMT_STATUS hsaKmtGetRuntimeCapabilities(HSAuint32 *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtExportDMABufHandle(void *, HSAuint64, int *, HSAuint64 *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtDbgEnable(void **, HSAuint32 *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtDbgDisable() {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtDbgGetDeviceData(void **, HSAuint32 *, HSAuint32 *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtDbgGetQueueData(void **, HSAuint32 *, HSAuint32 *, bool) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtReplaceAsanHeaderPage(void *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtReturnAsanHeaderPage(void *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
#endif
HSAKMT_STATUS HSAKMTAPI hsaKmtOpenSMI(HSAuint32, int *);
HSAKMT_STATUS hsaKmtOpenSMI(HSAuint32, int *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtSPMAcquire(HSAuint32) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtSPMRelease(HSAuint32) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}
HSAKMT_STATUS hsaKmtSPMSetDestBuffer(HSAuint32, HSAuint32, HSAuint32 *, HSAuint32 *, void *,
                                     bool *) {
  return HSAKMT_STATUS_NOT_SUPPORTED;
}

} // extern "C"
