/** The type of the tasks: the page asks for it, the worker claims it. */
export const type = "chat";
