//! Draws an imported texture.

use glow::{HasContext, PixelPackData};
use gpu_interop::ChannelType;
use gpu_interop::gl::ImportedTexture;

use super::GlSide;
use super::transfer::{native, transfer_format};
use crate::ensure;
use crate::outcome::{Stop, Verdict};

/// A triangle that covers the viewport, without inputs.
const VERTICES: &str = "#version 450 core
void main() {
    gl_Position = vec4(float(gl_VertexID & 1) * 4.0 - 1.0, float(gl_VertexID & 2) * 2.0 - 1.0, 0.0, 1.0);
}
";

/// Each pixel is the texel at its position.
fn fragments(integers: bool) -> String {
    let (sampler, color) = if integers { ("usampler2D", "uvec4") } else { ("sampler2D", "vec4") };
    format!(
        "#version 450 core
layout(binding = 0) uniform {sampler} image;
layout(location = 0) out {color} color;
void main() {{
    color = texelFetch(image, ivec2(gl_FragCoord.xy), 0);
}}
"
    )
}

/// Draws level 0 of a two-dimensional texture to an own framebuffer, texel by texel.
pub(crate) struct Drawing<'a> {
    side: &'a GlSide<'a>,
    width: i32,
    height: i32,
    program: glow::NativeProgram,
    vertex_array: glow::NativeVertexArray,
    frame: glow::NativeTexture,
    framebuffer: glow::NativeFramebuffer,
    texture: glow::NativeTexture,
    transfer: (u32, u32),
}

impl<'a> Drawing<'a> {
    pub(crate) fn new(side: &'a GlSide<'a>, texture: &ImportedTexture) -> Verdict<Self> {
        let spec = texture.spec();
        let [width, height, _] = spec.shape.level_extent(0);
        let side_of = |texels: u64| i32::try_from(texels).map_err(|error| Stop::failed(error.to_string()));
        let (width, height) = (side_of(width)?, side_of(height)?);
        let (gl, format) = (&side.gl, spec.format);
        let integers = format.array().channel() == ChannelType::Uint32;
        let transfer = transfer_format(texture)?;
        let texture = glow::NativeTexture(native(texture.as_raw())?);
        // SAFETY: the context is current; every name is new.
        unsafe {
            let program = program(gl, &fragments(integers))?;
            let vertex_array = gl.create_vertex_array().map_err(Stop::failed)?;
            let frame = gl.create_texture().map_err(Stop::failed)?;
            let framebuffer = gl.create_framebuffer().map_err(Stop::failed)?;
            gl.bind_texture(glow::TEXTURE_2D, Some(frame));
            gl.tex_storage_2d(glow::TEXTURE_2D, 1, format.internal(), width, height);
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(framebuffer));
            gl.framebuffer_texture_2d(glow::FRAMEBUFFER, glow::COLOR_ATTACHMENT0, glow::TEXTURE_2D, Some(frame), 0);
            let status = gl.check_framebuffer_status(glow::FRAMEBUFFER);
            side.succeeded("making a frame to draw to")?;
            ensure!(status == glow::FRAMEBUFFER_COMPLETE, "the frame to draw to is not complete: {status:#06x}");
            // With the default sampler state `texelFetch` would access missing levels.
            gl.bind_texture(glow::TEXTURE_2D, Some(texture));
            for (name, value) in [
                (glow::TEXTURE_MIN_FILTER, glow::NEAREST),
                (glow::TEXTURE_MAG_FILTER, glow::NEAREST),
                (glow::TEXTURE_MAX_LEVEL, 0),
            ] {
                gl.tex_parameter_i32(glow::TEXTURE_2D, name, value.cast_signed());
            }
            side.succeeded("setting the texture's parameters")?;
            Ok(Self { side, width, height, program, vertex_array, frame, framebuffer, texture, transfer })
        }
    }

    /// Enqueues the draw. Does not wait.
    pub(crate) fn draw(&self) -> Verdict {
        let gl = &self.side.gl;
        // SAFETY: the context is current, and everything is live.
        unsafe {
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(self.framebuffer));
            gl.viewport(0, 0, self.width, self.height);
            gl.use_program(Some(self.program));
            gl.bind_vertex_array(Some(self.vertex_array));
            gl.active_texture(glow::TEXTURE0);
            gl.bind_texture(glow::TEXTURE_2D, Some(self.texture));
            gl.draw_arrays(glow::TRIANGLES, 0, 3);
        }
        self.side.succeeded("drawing")
    }

    /// Reads every pixel of the frame, after the draw has completed.
    pub(crate) fn read(&self) -> Verdict<Vec<u8>> {
        // Both formats have 4 bytes per pixel.
        let pixels = usize::try_from(self.width).unwrap_or(0) * usize::try_from(self.height).unwrap_or(0);
        let mut found = vec![0; 4 * pixels];
        let (gl, (format, ty)) = (&self.side.gl, self.transfer);
        // SAFETY: the context is current, and the frame has that many pixels of 4 bytes.
        unsafe {
            gl.bind_framebuffer(glow::FRAMEBUFFER, Some(self.framebuffer));
            gl.pixel_store_i32(glow::PACK_ALIGNMENT, 1);
            gl.read_pixels(0, 0, self.width, self.height, format, ty, PixelPackData::Slice(Some(&mut found)));
        }
        self.side.succeeded("glReadPixels")?;
        Ok(found)
    }
}

impl Drop for Drawing<'_> {
    fn drop(&mut self) {
        let gl = &self.side.gl;
        // SAFETY: the context is current, and this object owns the names.
        unsafe {
            gl.delete_framebuffer(self.framebuffer);
            gl.delete_texture(self.frame);
            gl.delete_vertex_array(self.vertex_array);
            gl.delete_program(self.program);
        }
    }
}

/// # Safety
/// The context must be current.
unsafe fn program(gl: &glow::Context, fragments: &str) -> Verdict<glow::NativeProgram> {
    // SAFETY: the caller's promise; every name is one that was just made.
    unsafe {
        let program = gl.create_program().map_err(Stop::failed)?;
        for (kind, source) in [(glow::VERTEX_SHADER, VERTICES), (glow::FRAGMENT_SHADER, fragments)] {
            let shader = gl.create_shader(kind).map_err(Stop::failed)?;
            gl.shader_source(shader, source);
            gl.compile_shader(shader);
            ensure!(gl.get_shader_compile_status(shader), "a shader was rejected: {}", gl.get_shader_info_log(shader));
            gl.attach_shader(program, shader);
            gl.delete_shader(shader);
        }
        gl.link_program(program);
        ensure!(gl.get_program_link_status(program), "the program was rejected: {}", gl.get_program_info_log(program));
        Ok(program)
    }
}
