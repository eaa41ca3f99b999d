"""The kernel of warp, in a module of its own: warp reads its annotations as objects, not as text."""

import warp


@warp.kernel
def twice(texture: warp.Texture2D, out: warp.array2d(dtype=warp.vec4f)):
    y, x = warp.tid()
    at = warp.vec2f(float(x) + 0.5, float(y) + 0.5)
    out[y, x] = warp.texture_sample(texture, at, dtype=warp.vec4f) * 2.0
