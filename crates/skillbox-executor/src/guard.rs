//! What ends a command that nobody waits for any more.

use std::sync::Arc;

use skillbox_init::InitClient;

use crate::CommandTree;

/// Ends the command's tree if its future is dropped.
pub(crate) struct Guard<'a> {
    pub(crate) client: &'a Arc<InitClient>,
    pub(crate) slot: u64,
    pub(crate) tree: Option<&'a Arc<dyn CommandTree>>,
    pub(crate) armed: bool,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let (client, slot, tree) = (self.client.clone(), self.slot, self.tree.cloned());
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                match tree {
                    Some(tree) => drop(tree.end().await),
                    None => drop(client.end_tree(slot)),
                }
                client.forget(slot);
            });
        }
    }
}
