"""Events: how the scheduler derives them from changes of objects, and which plugins registered for them."""
