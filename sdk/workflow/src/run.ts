import { EntityConflictError, HookNotFoundError, RunExpiredError, RunNotSupportedError, TooEarlyError, WorkflowRunNotFoundError, WorkflowWorldError } from "@workflow/errors";
import { applyAttributeChanges, isChildEntityCreationEvent, isHookEventRequiringExistence, isStepEventType, isTerminalRunEventType, isTerminalStepStatus, isTerminalWorkflowRunStatus, requiresNewerWorld, SPEC_VERSION_CURRENT, validateAttributeChanges, type CreateEventRequest, type Event, type Hook, type RunCreatedEventRequest, type Step, type Wait, type WorkflowRun } from "@workflow/world";

/** What the events of a run come to. Nothing else is stored about it. */
export class RunState {
  run: WorkflowRun | undefined;
  readonly steps = new Map<string, Step>();
  readonly hooks = new Map<string, Hook>();
  readonly waits = new Map<string, Wait>();
  readonly tokens = new Map<string, string>(); // of the hooks that were not disposed of, also after the end of the run
  readonly disposed = new Set<string>();
  readonly attributeEvents = new Set<string>();
  readonly events: Event[] = [];

  /** Adds an event that was stored. */
  apply(event: Event): void {
    this.events.push(event);
    const at = event.createdAt;
    const id = event.correlationId ?? "";
    const data = (event as { eventData?: Record<string, any> }).eventData ?? {};
    if (this.run) this.run = { ...this.run, updatedAt: at } as WorkflowRun;
    const step = this.steps.get(id);
    const change = (changes: Partial<Step>) => step && this.steps.set(id, { ...step, ...changes, updatedAt: at });
    switch (event.eventType) {
      case "run_created":
        this.run = { runId: event.runId, status: "pending", deploymentId: data.deploymentId, workflowName: data.workflowName,
          specVersion: event.specVersion, executionContext: data.executionContext, input: data.input, attributes: data.attributes ?? {},
          createdAt: at, updatedAt: at } as WorkflowRun;
        break;
      case "run_started":
        this.#move({ status: "running", startedAt: this.run?.startedAt ?? at });
        break;
      case "run_completed":
        this.#move({ status: "completed", output: data.output, completedAt: at });
        break;
      case "run_failed":
        this.#move({ status: "failed", error: data.error, errorCode: data.errorCode, completedAt: at });
        break;
      case "run_cancelled":
        this.#move({ status: "cancelled", completedAt: this.run?.completedAt ?? at });
        break;
      case "attr_set":
        if (this.run) this.#move({ attributes: applyAttributeChanges(this.run.attributes, data.changes) });
        if (event.correlationId && data.writer?.type === "workflow") this.attributeEvents.add(event.correlationId);
        break;
      case "step_created":
        this.steps.set(id, { runId: event.runId, stepId: id, stepName: data.stepName, status: "pending", input: data.input, attempt: 0,
          createdAt: at, updatedAt: at, specVersion: event.specVersion } as Step);
        break;
      case "step_started":
        change({ status: "running", startedAt: step?.startedAt ?? at, attempt: (step?.attempt ?? 0) + 1, retryAfter: undefined });
        break;
      case "step_completed":
        change({ status: "completed", output: data.result, completedAt: at });
        break;
      case "step_failed":
        change({ status: "failed", error: data.error, completedAt: at });
        break;
      case "step_retrying":
        change({ status: "pending", error: data.error, retryAfter: data.retryAfter });
        break;
      case "hook_created":
        this.tokens.set(id, data.token);
        this.hooks.set(id, { runId: event.runId, hookId: id, token: data.token, metadata: data.metadata, ownerId: "pawl", projectId: "pawl",
          environment: "pawl", createdAt: at, specVersion: event.specVersion, isWebhook: data.isWebhook ?? false, isSystem: data.isSystem ?? false } as Hook);
        break;
      case "hook_disposed":
        this.hooks.delete(id);
        this.tokens.delete(id);
        this.disposed.add(id);
        break;
      case "wait_created":
        this.waits.set(id, { waitId: `${event.runId}-${id}`, runId: event.runId, status: "waiting", resumeAt: data.resumeAt, createdAt: at,
          updatedAt: at, specVersion: event.specVersion } as Wait);
        break;
      case "wait_completed":
        this.waits.set(id, { ...this.waits.get(id)!, status: "completed", completedAt: at, updatedAt: at });
        break;
    }
    if (this.ended) this.hooks.clear(); // an ended run frees its tokens
  }

  get ended(): boolean {
    return this.run !== undefined && isTerminalWorkflowRunStatus(this.run.status);
  }

  #move(changes: Partial<WorkflowRun>): void {
    this.run = { ...this.run, ...changes } as WorkflowRun;
  }

  /**
   * Checks a new event and returns the events to store for it: usually itself, none if it changes
   * nothing, or the creation of the run or step that it brings along before it.
   */
  admit(runId: string, data: CreateEventRequest | RunCreatedEventRequest, eventIds: string[], now: Date): Event[] {
    const make = (n: number, e: object) => ({ specVersion: SPEC_VERSION_CURRENT, ...e, runId, eventId: eventIds[n], createdAt: now }) as unknown as Event;
    const id = ("correlationId" in data && data.correlationId) || "";
    if (data.eventType === "run_created") {
      if (this.run) throw new EntityConflictError(`Workflow run "${runId}" already exists`);
      checkAttributes(data.eventData);
      return [make(0, data)];
    }
    const before: Event[] = [];
    if (!this.run) {
      const given = data.eventType === "run_started" ? data.eventData : undefined;
      if (!given?.deploymentId || !given.workflowName || given.input === undefined) throw new WorkflowRunNotFoundError(runId);
      checkAttributes(given); // the message that starts a run brings what creates it
      before.push(make(0, { eventType: "run_created", specVersion: data.specVersion ?? SPEC_VERSION_CURRENT, eventData: given }));
    }
    if (requiresNewerWorld(this.run?.specVersion)) throw new RunNotSupportedError(this.run!.specVersion!, SPEC_VERSION_CURRENT);
    const creates = isChildEntityCreationEvent(data as Parameters<typeof isChildEntityCreationEvent>[0]);
    if (this.run && this.ended && !this.#goesOn(runId, data, creates)) return [make(0, data)];
    if (isStepEventType(data.eventType) && data.eventType !== "step_created") before.push(...this.#step(id, data, creates, (e) => make(0, e), now));
    if (isHookEventRequiringExistence(data.eventType) && !this.hooks.has(id)) throw new HookNotFoundError(id);
    switch (data.eventType) {
      case "run_started": {
        if (this.run?.status === "running") return [];
        const { eventData: _, ...bare } = data;
        return [...before, make(before.length, bare)];
      }
      case "step_created":
        if (this.steps.has(id)) throw new EntityConflictError(`Step "${id}" already created`);
        break;
      case "hook_created":
        if (this.hooks.has(id) || this.disposed.has(id)) throw new EntityConflictError(`Hook "${id}" already created`);
        break;
      case "wait_created":
        if (this.waits.has(id)) throw new EntityConflictError(`Wait "${id}" already exists`);
        break;
      case "wait_completed": {
        const wait = this.waits.get(id);
        if (!wait) throw new WorkflowWorldError(`Wait "${id}" not found`);
        if (wait.status === "completed") throw new EntityConflictError(`Wait "${id}" already completed`);
        break;
      }
      case "attr_set":
        validateAttributeChanges(data.eventData.changes, { existingKeys: Object.keys(this.run!.attributes),
          allowReservedAttributes: data.eventData.allowReservedAttributes === true });
        if (id && this.attributeEvents.has(id)) throw new EntityConflictError(`Attribute event "${id}" already exists`);
        break;
    }
    if (before.length > 0 && data.eventType === "step_started") { // the creation has the input
      const { input: _, ...eventData } = data.eventData ?? {};
      return [...before, make(1, { ...data, eventData })];
    }
    return [...before, make(before.length, data)];
  }

  /** Whether an event may go on although the run has ended; false for one that is stored as it is. */
  #goesOn(runId: string, data: CreateEventRequest, creates: boolean): boolean {
    const status = this.run!.status;
    if (data.eventType === "run_cancelled" && status === "cancelled") return false;
    if (data.eventType === "run_started") throw new RunExpiredError(`Workflow run "${runId}" is already in terminal state "${status}"`);
    if (isTerminalRunEventType(data.eventType) || creates || data.eventType === "attr_set") {
      throw new EntityConflictError(`Workflow run "${runId}" is in terminal state "${status}", which does not allow ${data.eventType}`);
    }
    return true;
  }

  /** Checks an event of a step. It returns the creation of a step that starts without one. */
  #step(id: string, data: CreateEventRequest, creates: boolean, make: (e: object) => Event, now: Date): Event[] {
    const step = this.steps.get(id);
    if (!step) {
      if (!creates || data.eventType !== "step_started") throw new WorkflowWorldError(`Step "${id}" not found`);
      const { stepName, input } = data.eventData as { stepName: string; input: unknown };
      return [make({ eventType: "step_created", correlationId: id, specVersion: data.specVersion ?? SPEC_VERSION_CURRENT, eventData: { stepName, input } })];
    }
    if (creates) throw new EntityConflictError(`Step "${id}" already created`);
    if (isTerminalStepStatus(step.status)) throw new EntityConflictError(`Cannot modify step in terminal state "${step.status}"`);
    if (this.ended && step.status !== "running") throw new RunExpiredError(`Cannot modify non-running step on run in terminal state "${this.run!.status}"`);
    if (data.eventType === "step_started" && step.retryAfter && step.retryAfter > now) {
      const retryAfter = Math.ceil((step.retryAfter.getTime() - now.getTime()) / 1000);
      throw new TooEarlyError(`Cannot start step "${id}": retryAfter timestamp has not been reached yet`, { retryAfter });
    }
    return [];
  }
}

function checkAttributes(data: { attributes?: Record<string, string> | undefined; allowReservedAttributes?: true | undefined }): void {
  const changes = Object.entries(data.attributes ?? {}).map(([key, value]) => ({ key, value }));
  validateAttributeChanges(changes, { allowReservedAttributes: data.allowReservedAttributes === true });
}
