#!/bin/sh
# Makes the clip of the example, and the SHA-256 of each frame's NV12 bytes by ffmpeg's software decoder.
# Needs ffmpeg with libx264.
set -eu
cd "$(dirname "$0")"
ffmpeg -v error -y -f lavfi -i testsrc2=size=320x192:rate=30 -frames:v 10 -pix_fmt yuv420p -c:v libx264 -profile:v high \
    -preset slow -crf 26 -bf 2 -x264-params keyint=10:ref=3:threads=1 -bitexact -f h264 clip.h264
ffmpeg -v error -y -c:v h264 -i clip.h264 -pix_fmt nv12 -f framehash -hash sha256 clip.sha256
