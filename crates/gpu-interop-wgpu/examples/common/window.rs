//! A window, where there is a display.

use std::sync::Arc;
use std::time::Duration;

use gpu_interop_wgpu::wgpu;
use winit::application::ApplicationHandler;
use winit::dpi::PhysicalSize;
use winit::event::WindowEvent;
use winit::event_loop::{ActiveEventLoop, EventLoop};
use winit::platform::pump_events::{EventLoopExtPumpEvents, PumpStatus};
use winit::window::{WindowAttributes, WindowId};

use super::setup::Result;

pub(super) struct Window {
    // Fields drop in this order: the surface before its window.
    surface: Option<wgpu::Surface<'static>>,
    handler: Handler,
    events: EventLoop<()>,
}

struct Handler {
    attributes: WindowAttributes,
    window: Option<Arc<winit::window::Window>>,
    closed: bool,
}

impl ApplicationHandler for Handler {
    fn resumed(&mut self, events: &ActiveEventLoop) {
        match events.create_window(self.attributes.clone()) {
            Ok(window) => self.window = Some(Arc::new(window)),
            Err(error) => eprintln!("no window: {error}"),
        }
    }

    fn window_event(&mut self, _: &ActiveEventLoop, _: WindowId, event: WindowEvent) {
        self.closed |= matches!(event, WindowEvent::CloseRequested);
    }
}

impl Window {
    /// Opens a window, or returns `None` without a display.
    pub(super) fn open(title: &str, size: u32) -> Result<Option<Self>> {
        if cfg!(unix) && std::env::var_os("DISPLAY").is_none() {
            return Ok(None);
        }
        let mut events = EventLoop::new()?;
        let attributes = WindowAttributes::default()
            .with_title(title)
            .with_inner_size(PhysicalSize::new(size, size))
            .with_resizable(false);
        let mut handler = Handler { attributes, window: None, closed: false };
        events.pump_app_events(Some(Duration::from_secs(1)), &mut handler);
        let opened = handler.window.is_some();
        Ok(opened.then_some(Self { surface: None, handler, events }))
    }

    /// The surface of the window.
    pub(super) fn surface(&mut self, instance: &wgpu::Instance) -> Result<&wgpu::Surface<'static>> {
        let window = self.handler.window.clone().ok_or("the window is closed")?;
        Ok(self.surface.insert(instance.create_surface(window)?))
    }

    /// Prepares the surface for frames of this size, which are copied to it.
    pub(super) fn configure(&mut self, device: &wgpu::Device, format: wgpu::TextureFormat, size: u32) {
        if let (Some(surface), Some(window)) = (&self.surface, &self.handler.window) {
            let _ = window.request_inner_size(PhysicalSize::new(size, size));
            surface.configure(device, &configuration(format, size));
        }
    }

    /// Presents a frame, and handles events. Returns false once the window is closed. `HandBack::acquire` has made the frame
    /// safe to present: over a bridge it waits for the stream, as `Timeline::before_present` does for other renderers.
    pub(super) fn present(
        &mut self,
        device: &wgpu::Device,
        queue: &wgpu::Queue,
        frame: &wgpu::Texture,
    ) -> Result<bool> {
        use wgpu::CurrentSurfaceTexture::{Outdated, Suboptimal, Success};
        let Some(surface) = &self.surface else { return Ok(false) };
        match surface.get_current_texture() {
            Success(target) | Suboptimal(target) => {
                let (from, to) = (frame.size(), target.texture.size());
                let extent = wgpu::Extent3d {
                    width: from.width.min(to.width),
                    height: from.height.min(to.height),
                    depth_or_array_layers: 1,
                };
                let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
                encoder.copy_texture_to_texture(frame.as_image_copy(), target.texture.as_image_copy(), extent);
                queue.submit([encoder.finish()]);
                queue.present(target);
            }
            Outdated => surface.configure(device, &configuration(frame.format(), frame.width())),
            // The window is hidden, or the display is busy.
            _ => {}
        }
        let status = self.events.pump_app_events(Some(Duration::ZERO), &mut self.handler);
        Ok(!self.handler.closed && matches!(status, PumpStatus::Continue))
    }
}

fn configuration(format: wgpu::TextureFormat, size: u32) -> wgpu::SurfaceConfiguration {
    wgpu::SurfaceConfiguration {
        usage: wgpu::TextureUsages::COPY_DST,
        format,
        color_space: wgpu::SurfaceColorSpace::default(),
        width: size,
        height: size,
        present_mode: wgpu::PresentMode::AutoVsync,
        desired_maximum_frame_latency: 2,
        alpha_mode: wgpu::CompositeAlphaMode::Auto,
        view_formats: Vec::new(),
    }
}
