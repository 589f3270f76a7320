"""Learns to tell handwritten digits apart; logs its accuracy, a picture and the model."""

import argparse
import os

import joblib
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.metrics import ConfusionMatrixDisplay, accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

from wherry import Run

parser = argparse.ArgumentParser()
parser.add_argument("--hidden", type=int, default=32, help="neurons in the hidden layer")
parser.add_argument("--epochs", type=int, default=15)
parser.add_argument("--learning-rate", type=float, default=0.005)
args = parser.parse_args()

run = Run.get_context()
digits = load_digits()
train_x, test_x, train_y, test_y = train_test_split(
    digits.data / 16, digits.target, random_state=0, stratify=digits.target
)

model = MLPClassifier((args.hidden,), learning_rate_init=args.learning_rate, random_state=0)
for epoch in range(args.epochs):
    model.partial_fit(train_x, train_y, classes=digits.target_names)
    accuracy = accuracy_score(test_y, model.predict(test_x))
    run.log("loss", model.loss_, step=epoch)
    run.log("accuracy", accuracy, step=epoch)
    print(f"epoch {epoch + 1:2d}: loss {model.loss_:.3f}, accuracy {accuracy:.3f}")

run.log("final_accuracy", accuracy)
ConfusionMatrixDisplay.from_predictions(test_y, model.predict(test_x))
run.log_image("confusion", plot=plt)

os.makedirs("outputs", exist_ok=True)
joblib.dump(model, "outputs/model.joblib")
print(f"final accuracy {accuracy:.3f} with {args.hidden} hidden neurons")
