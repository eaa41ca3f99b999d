//! Objects used by the recorder's graphs.

use std::collections::BTreeMap;

use super::Object;

#[derive(Debug, Default)]
pub(super) struct Graphs {
    /// Recording streams, with the objects used.
    recording: BTreeMap<u64, Vec<Object>>,
    live: BTreeMap<u64, Vec<Object>>,
}

impl Graphs {
    pub(super) fn begin(&mut self, stream: u64) {
        self.recording.insert(stream, Vec::new());
    }

    /// Records the objects that work on a stream uses, if the stream is recording.
    pub(super) fn record(&mut self, stream: u64, used: &[Object]) -> bool {
        let Some(recording) = self.recording.get_mut(&stream) else { return false };
        recording.extend(used.iter().filter(|object| **object != Object::Stream(stream)));
        true
    }

    pub(super) fn records(&self, stream: u64) -> bool {
        self.recording.contains_key(&stream)
    }

    pub(super) fn end(&mut self, stream: u64, graph: u64) {
        self.live.insert(graph, self.recording.remove(&stream).unwrap_or_default());
    }

    pub(super) fn discard(&mut self, stream: u64) {
        self.recording.remove(&stream);
    }

    pub(super) fn uses(&mut self, graph: u64) -> &mut Vec<Object> {
        self.live.entry(graph).or_default()
    }

    /// A graph that uses `object`.
    pub(super) fn user(&self, object: Object) -> Option<Object> {
        self.live.iter().find(|(_, used)| used.contains(&object)).map(|(graph, _)| Object::Graph(*graph))
    }

    pub(super) fn remove(&mut self, object: Object) {
        if let Object::Graph(graph) = object {
            self.live.remove(&graph);
        }
    }
}
