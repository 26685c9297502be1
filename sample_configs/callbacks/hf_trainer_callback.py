# Stop a Hugging Face run that is not its config, or at its budget: Trainer(callbacks=[PrivacyBudget("dpcalc.yaml")]).
import json
from pathlib import Path

from transformers import TrainerCallback

from dpcalc import Accountant


class PrivacyBudget(TrainerCallback):
    def __init__(self, config):
        self.accountant = Accountant(config)

    def on_train_begin(self, args, state, control, **kwargs):
        batch = args.train_batch_size * args.gradient_accumulation_steps * args.world_size
        self.accountant.require(steps=state.max_steps, batch_size=batch)
        if state.global_step:
            file = Path(args.output_dir, f"checkpoint-{state.global_step}", "accountant.json")
            self.accountant.load_state_dict(json.loads(file.read_text()))

    def on_step_end(self, args, state, control, **kwargs):
        self.accountant.step()
        control.should_training_stop = control.should_training_stop or self.accountant.should_stop

    def on_log(self, args, state, control, logs, **kwargs):
        logs["epsilon"] = self.accountant.epsilon

    def on_save(self, args, state, control, **kwargs):
        file = Path(args.output_dir, f"checkpoint-{state.global_step}", "accountant.json")
        file.write_text(json.dumps(self.accountant.state_dict()))
